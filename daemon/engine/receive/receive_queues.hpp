// SPDX-License-Identifier: Apache-2.0

// Receives: drawn from a queue pair's own ring or from a shared receive queue, and completed. A
// shared queue may be provisioned (mechanism D). Then each draw first accounts for the consumer's
// posts, and checks that the queue pair may draw. XRC targets draw from the queue that each request
// names (InfiniBand specification, annex A14). That queue may be destroyed between two packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "daemon/engine/receive/completion_queues.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/qp_table.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"
#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::engine {

class ReceiveQueues {
 public:
  ReceiveQueues(const StepClock& clock, QpTable& queue_pairs, CpuScheduler& cpu,
                AsyncEvents& async_events, CompletionQueues& completion_queues, EventLog& log)
      : clock_(clock),
        queue_pairs_(queue_pairs),
        cpu_(cpu),
        async_events_(async_events),
        completion_queues_(completion_queues),
        log_(log) {}

  // --- shared receive queues
  /// Adds the queue and gives it its number. `number`: chosen by an earlier engine, and the queue
  /// goes on where it was with that engine; 0: none is. False: the number is in use.
  bool add(SharedReceiveQueue& srq, std::uint32_t number = 0);
  /// Retires the queue: XRC requests no longer find it.
  void retire(SharedReceiveQueue& srq);
  /// Removes retired queues from XRC targets, for some slots of queue pairs from `slot` on, and
  /// advances `slot`. Receives drawn from these queues are dropped, and the rest of their messages
  /// is refused. True: no target has a retired queue.
  bool drop_retired(const Session& payer, std::uint32_t& slot);
  /// Removes the queue. REQUIRES: no XRC target has it.
  void remove(SharedReceiveQueue& srq);
  std::size_t size() const { return shared_.size(); }
  /// Arms the limit event. It is raised at once if the queue is below the limit.
  void set_limit(SharedReceiveQueue& srq, std::uint32_t limit);
  /// Moves the queue to `ring`, which its own ring made (ReceiveRing::copy_to()). Limits follow the
  /// new size from now on. Receives drawn before are charged to no queue pair. Returns the
  /// provisioner that `made` replaces, to be freed elsewhere. REQUIRES: `made`, if the queue has a
  /// provisioner.
  std::unique_ptr<receive::Provisioner> resize(SharedReceiveQueue& srq,
                                               const shm::ReceiveRing& ring,
                                               std::unique_ptr<receive::Provisioner> made);
  /// Fails the queue: no receive can be drawn, and its program gets an event. Does nothing if it
  /// failed before.
  void fail(SharedReceiveQueue& srq);

  // --- provisioning
  /// Makes the provisioners that the tenant's shared receive queues lack for `policy`. It
  /// allocates, so the control thread calls it. That is safe because queues are
  /// added and removed only by requests of that thread.
  Provisioners make_provisioners(const Tenant& tenant, const SrqPolicy& policy,
                                 const SrqRules& rules) const;
  /// Starts provisioning. Receives drawn before are charged to no queue pair. REQUIRES: the queue
  /// has no provisioner.
  void start_provisioning(SharedReceiveQueue& srq, std::unique_ptr<receive::Provisioner> made);
  /// Sets the policy of all shared receive queues of the tenant, present and future. It takes
  /// effect at once. REQUIRES: none lacks a provisioner.
  void set_policy(Tenant& tenant, const SrqPolicy& policy, const SrqRules& rules);
  /// Marks the rules of the queue pair as outdated: its peer has changed.
  static void path_changed(QueuePair& qp);
  /// Applies the current rules to the queue pair. REQUIRES: it is on a shared receive queue.
  void follow_rules(QueuePair& qp);
  /// Terms for one queue pair, whatever the policy says. A term that is not given does not change.
  /// REQUIRES: the queue pair exists, on a shared receive queue that has a provisioner.
  struct ReceiveTerms {
    std::optional<std::uint32_t> limit;      ///< 0: none; Member::kByPolicy
    std::optional<std::uint8_t> importance;  ///< below kImportances; kByPath: by rule or path
  };
  void set_terms(Qpn qpn, const ReceiveTerms& terms);

  // --- receives of a queue pair
  /// Draws a receive work request into qp.rq.work. A hostile ring fails its owner.
  shm::Take draw(QueuePair& qp);
  /// Completes the receive that was drawn.
  void complete(QueuePair& qp, const transport::ReceiveCompletion& completion);
  /// True if there is a receive to draw. Also true if only drawing can tell, as for an XRC target
  /// that has no queue yet.
  static bool has_receive(QueuePair& qp);
  /// Ends the accounts of a queue pair that is removed.
  void leave(QueuePair& qp);

  // --- XRC targets
  /// Selects the queue from which the target draws from now on. kRemoteInvalidRequest: it may use
  /// no queue with this number.
  Verdict choose(QueuePair& qp, std::uint32_t number);
  /// Returns the queue with this number. Null: this target may use no such queue.
  SharedReceiveQueue* find_xrc(const QueuePair& qp, std::uint32_t number) const;

 private:
  shm::Take draw_shared(QueuePair& qp, SharedReceiveQueue& srq);
  shm::Take draw_provisioned(QueuePair& qp, SharedReceiveQueue& srq);
  std::optional<std::uint32_t> account_posts(SharedReceiveQueue& srq);
  void report(const SharedReceiveQueue& srq, QueuePair& qp, receive::Decision decision);
  void follow_rules(const QueuePair& qp, SharedReceiveQueue& srq, receive::Member& member);
  bool choose_number(SharedReceiveQueue& srq, std::uint32_t number);
  void drop_connection(QueuePair& qp, const SharedReceiveQueue& srq, const receive::Member& member);
  static void use(QueuePair& qp, SharedReceiveQueue* srq);
  static receive::Member* member_of(QueuePair& qp, const SharedReceiveQueue& srq);

  // --- receive_queues_watch.cpp
  static void set_watermark(SharedReceiveQueue& srq);
  static void restart_level(SharedReceiveQueue& srq);
  static void note_draw(QueuePair& qp, SharedReceiveQueue& srq, shm::Take take);
  void look_at_level(SharedReceiveQueue& srq, std::uint32_t drawn);
  void tell_low(SharedReceiveQueue& srq, std::uint32_t available, bool of_operator);
  void act_on(const receive::Alarm& alarm, SharedReceiveQueue& srq);
  void tell_drawers(SharedReceiveQueue& srq);
  void tell_runaway(SharedReceiveQueue& srq);
  void report(DaemonEventKind kind, const SharedReceiveQueue& srq, Qpn qpn, std::uint32_t amount,
              std::uint32_t of = 0);

  const StepClock& clock_;
  QpTable& queue_pairs_;
  CpuScheduler& cpu_;
  AsyncEvents& async_events_;
  CompletionQueues& completion_queues_;
  EventLog& log_;
  std::vector<SharedReceiveQueue*> shared_;
  std::unordered_map<std::uint32_t, SharedReceiveQueue*> xrc_;  ///< by number
  std::uint32_t next_number_ = 0;
  std::uint32_t rules_ = 1;  ///< counts changes of any tenant's rules; never 0
};

}  // namespace softhca::engine
