// SPDX-License-Identifier: Apache-2.0

// The life of queue pairs. It covers numbers, levels and TVLs when they are installed, the states
// of the specification (IBA 10.3.1) with the effect on commands and receives in progress, and
// TIME-WAIT when they are removed.
#pragma once

#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/addresses/addressing.hpp"
#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/level_assignment.hpp"
#include "daemon/engine/commands/qp_stall.hpp"
#include "daemon/engine/queue_pairs/command_execution.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/time_wait.hpp"
#include "daemon/roce/transport/reliability.hpp"

namespace softhca::engine {

class QpLifecycle {
 public:
  QpLifecycle(const CommandCore& core, const TransportParts& parts, Addressing& addressing,
              CommandExecution& execution, TvlAssignment& tvl_assignment, EventLog& event_log,
              std::uint32_t kept_packets)
      : clock_(core.clock),
        parts_(parts),
        queue_pairs_(core.queue_pairs),
        addresses_(addressing.local),
        scheduler_(core.scheduler),
        execution_(execution),
        stall_(core.commands, core.pcbs, core.scheduler),
        levels_(core.cpu, core.pcbs, tvl_assignment),
        multicast_(addressing.multicast),
        event_log_(event_log),
        requests_(core.pcbs.size()),
        time_wait_(parts.state.time_waits()) {
    timers_.reserve(queue_pairs_.slots());
    kept_.open(kept_packets);
  }

  // --- coming and going
  /// Gives the queue pair its number and slot. `number`: chosen by an earlier engine; 0: none is.
  /// False: no slot is free, or the number is in use.
  bool install(QueuePair& qp, Qpn number = {});
  /// Does the same for a queue pair of the daemon's own. REQUIRES: it has its number.
  bool install_own(QueuePair& qp);
  /// Discards its commands without completions. The object may be freed afterwards.
  /// `with_session`: its session ends.
  void remove(QueuePair& qp, bool with_session = false);
  /// Adds a process that has the XRC target open. It receives the target's events, too.
  void share(QueuePair& qp, const QpHolder& holder);
  /// Removes one of the processes that have the XRC target open. REQUIRES: another one remains.
  void unshare(QueuePair& qp, const QpHolder& holder);
  /// Returns the part that handles queue pairs that cannot send.
  QpStall& stall() { return stall_; }
  /// Returns the connections in TIME-WAIT: the peer may not know yet that all it sent has arrived.
  TimeWaitTable& time_wait() { return time_wait_; }

  /// Sets the parameters of queue pairs that are connected from now on. The size of the
  /// out-of-order buffer does not change.
  void set_reliability(const ReliabilityParameters& parameters) { reliability_ = parameters; }

  /// True if no part of the commands before `sequence_end` has to be sent, or if the rest waits for
  /// a peer that has no receive or does not answer. REQUIRES: the commands were announced by a
  /// doorbell.
  bool has_sent(const QueuePair& qp, std::uint32_t sequence_end) const;

  /// Lets a queue pair go on where it was with the earlier engine, in the state that it had.
  /// REQUIRES: it is installed under its former number, its attributes are stored, and the engine
  /// is restoring. False: the earlier engine has left no such queue pair, which stays in RESET.
  bool resume(QueuePair& qp);
  /// Ends the restoring: drops what was left and not resumed. What lies between two queue pairs
  /// goes on.
  void end_resuming();
  /// True if resume() is possible.
  bool is_left(Qpn number) const { return queue_pairs_.is_left(number); }

  // --- states; the caller has checked and stored the attributes
  /// Moves the queue pair to RESET. `send_sequence`: number of the next command. Commands posted
  /// before are void, whether the engine has fetched them or not.
  void reset(QueuePair& qp, std::uint32_t send_sequence);
  void enter_init(QueuePair& qp) { set_state(qp, QpState::kInit); }
  void enter_ready_to_receive(QueuePair& qp, Psn rq_psn);
  void enter_ready_to_send(QueuePair& qp, Psn sq_psn);
  /// Applies the changes that modify_qp made to qp.rc, qp.qkey and similar members.
  void apply_attributes(QueuePair& qp);
  /// Moves the queue pair to SQD: commands that have not begun wait in the send queue. `notify`:
  /// its program requests an event when the commands that have begun are complete.
  void enter_drain(QueuePair& qp, bool notify);
  /// Moves the queue pair to ERR. All types go there, as in Linux rxe; IBA 10.3.1 would let UC and
  /// UD stop at SQE.
  void enter_error(QueuePair& qp);
  /// Flushes some receives of a queue pair in the error state. The number is limited so that a
  /// program that posts as fast as they are flushed gets no more than its turns. True: there may be
  /// more. False: the engine polls for more later.
  bool flush_receives(QueuePair& qp);

  /// Returns its last events.
  QpPast past(const QueuePair& qp) const { return parts_.history.past(qp); }
  /// Returns the latest check that failed since it left RESET.
  const Refusal& refusal(const QueuePair& qp) const { return parts_.history.refusal(qp); }

  // --- timers, one per queue pair
  TimerWheel& timers() { return timers_; }
  const TimerWheel& timers() const { return timers_; }

 private:
  void enter(QueuePair& qp);
  void set_state(QueuePair& qp, QpState state);
  void store_reset(QueuePair& qp, std::uint32_t send_sequence);
  transport::ReplayPlaces replays_of(const QueuePair& qp);
  // qp_resume.cpp
  void enter_former(QueuePair& qp, QpState state);
  bool redraw(QueuePair& qp);
  void resume_transport(QueuePair& qp);
  void resume_send_queue(QueuePair& qp);
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
  QpStall stall_;
  LevelAssignment levels_;
  Multicast& multicast_;
  EventLog& event_log_;
  transport::RequestTable requests_;
  transport::KeptStore kept_;
  ReliabilityParameters reliability_;
  TimerWheel timers_;
  TimeWaitTable time_wait_;
};

}  // namespace softhca::engine
