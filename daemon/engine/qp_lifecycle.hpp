// The life of queue pairs: numbers, levels and TVLs when they come, the states of the specification
// (IBA 10.3.1) with what happens to commands and receives under way, and what is left when they go.
#pragma once

#include "daemon/base/reliability.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/command_execution.hpp"
#include "daemon/engine/event_log.hpp"
#include "daemon/engine/level_assignment.hpp"
#include "daemon/engine/multicast.hpp"
#include "daemon/engine/qp_stall.hpp"
#include "daemon/engine/time_wait.hpp"

namespace softhca::engine {

class QpLifecycle {
 public:
  QpLifecycle(const StepClock& clock, const TransportParts& parts, QpTable& queue_pairs,
              const LocalAddresses& addresses, schedule::SendQueueScheduler& scheduler,
              CommandExecution& execution, QpStall& stall, TvlAssignment& tvl_assignment,
              Multicast& multicast, EventLog& event_log, std::size_t requests,
              std::uint32_t kept_packets)
      : clock_(clock),
        parts_(parts),
        queue_pairs_(queue_pairs),
        addresses_(addresses),
        scheduler_(scheduler),
        execution_(execution),
        stall_(stall),
        levels_(parts.cpu, parts.pcbs, tvl_assignment),
        multicast_(multicast),
        event_log_(event_log),
        requests_(requests) {
    timers_.reserve(queue_pairs.slots());
    kept_.open(kept_packets);
  }

  // --- coming and going
  /// Gives the pair its number and slot; false: no slot is free.
  bool install(QueuePair& qp);
  /// As install(), for a queue pair of the daemon's own. REQUIRES: it has its number.
  bool install_own(QueuePair& qp);
  /// Discards its commands without completions. The object may be freed afterwards.
  void remove(QueuePair& qp);
  /// An XRC target is held open by one more process, which is told of its events, too.
  void share(QueuePair& qp, const QpHolder& holder);
  /// One of the processes that hold it lets go. REQUIRES: another one stays.
  void unshare(QueuePair& qp, const QpHolder& holder);
  /// Connections that are gone, whose peer may not know yet that all it sent has arrived.
  TimeWaitTable& time_wait() { return time_wait_; }

  /// For queue pairs that are connected from now on; the room for kept packets stays.
  void set_reliability(const ReliabilityParameters& parameters) { reliability_ = parameters; }

  /// True if nothing of the commands before `sequence_end` is left to send, or if the rest waits
  /// for a peer that has no receive or does not answer. REQUIRES: they were announced.
  bool has_sent(const QueuePair& qp, std::uint32_t sequence_end) const;

  // --- states; attributes have been checked and stored by the caller
  /// Moves the pair to RESET. `send_sequence`: number of the next command; what was posted before
  /// is void, taken in or not.
  void reset(QueuePair& qp, std::uint32_t send_sequence);
  void enter_init(QueuePair& qp) { parts_.history.enter(qp, QpState::kInit); }
  void enter_ready_to_receive(QueuePair& qp, Psn rq_psn);
  void enter_ready_to_send(QueuePair& qp, Psn sq_psn);
  /// Takes over what modify_qp changed in qp.rc, qp.qkey and the like.
  void apply_attributes(QueuePair& qp);
  /// Moves the pair to SQD: what has not begun waits in the send queue. `notify`: its program wants
  /// to hear when what has begun is complete.
  void enter_drain(QueuePair& qp, bool notify);
  /// All types go to ERR, as Linux rxe does it; IBA 10.3.1 would let UC and UD stop at SQE.
  void enter_error(QueuePair& qp);
  /// Flushes receives in the error state, some at a time, so that a consumer that posts as fast as
  /// it is flushed has no more than its turns. True: there may be more; else they are looked for
  /// later.
  bool flush_receives(QueuePair& qp);

  /// Its last events.
  QpPast past(const QueuePair& qp) const { return parts_.history.past(qp); }

  // --- timers, one per queue pair
  TimerWheel& timers() { return timers_; }
  const TimerWheel& timers() const { return timers_; }

 private:
  void enter(QueuePair& qp);
  void remember(QueuePair& qp);
  void choose_transport(QueuePair& qp, bool local);
  void configure(QueuePair& qp);
  void open_send_queue(QueuePair& qp);
  void note_failure(const QueuePair& qp);
  void settle_memory(QueuePair& qp);
  void flush(QueuePair& qp);

  const StepClock& clock_;
  const TransportParts& parts_;
  QpTable& queue_pairs_;
  const LocalAddresses& addresses_;
  schedule::SendQueueScheduler& scheduler_;
  CommandExecution& execution_;
  QpStall& stall_;
  LevelAssignment levels_;
  Multicast& multicast_;
  EventLog& event_log_;
  transport::RequestTable requests_;
  transport::ReplayStore replays_;
  transport::KeptStore kept_;
  ReliabilityParameters reliability_;
  TimerWheel timers_;
  TimeWaitTable time_wait_;
};

}  // namespace softhca::engine
