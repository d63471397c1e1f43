// Receives: drawn from a queue pair's own ring or from a shared receive queue, and completed. A
// shared one may be provisioned (mechanism D): then each draw first learns what the consumer
// posted, and asks whether the queue pair may have one. XRC targets draw from the queue that each
// request names (InfiniBand specification, annex A14); it may go between two packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "daemon/engine/completion_events.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/event_log.hpp"
#include "daemon/engine/qp_table.hpp"
#include "daemon/transport/upcalls.hpp"

namespace softhca::engine {

class ReceiveQueues {
 public:
  ReceiveQueues(const StepClock& clock, QpTable& queue_pairs, CpuScheduler& cpu,
                AsyncEvents& async_events, CompletionEvents& completion_events, EventLog& log)
      : clock_(clock),
        queue_pairs_(queue_pairs),
        cpu_(cpu),
        async_events_(async_events),
        completion_events_(completion_events),
        log_(log) {}

  // --- shared receive queues
  /// Gives the queue its number.
  void add(SharedReceiveQueue& srq);
  /// No request of XRC finds the queue any more.
  void retire(SharedReceiveQueue& srq);
  /// Takes retired queues from XRC targets, in some slots of queue pairs from `slot` on, which goes
  /// on. What they have drawn of these is gone, too; the rest of their messages is refused. True:
  /// no target has any.
  bool drop_retired(const Session& payer, std::uint32_t& slot);
  /// REQUIRES: no XRC target has the queue.
  void remove(SharedReceiveQueue& srq);
  std::size_t size() const { return shared_.size(); }
  /// Arms the limit event; it fires at once when the queue is below.
  void set_limit(SharedReceiveQueue& srq, std::uint32_t limit);
  /// Goes on in `ring`, which the queue's own made (ReceiveRing::copy_to()), and judges by its size
  /// from now on; what was drawn before counts for nobody. Returns the provisioner that `made`
  /// replaces, to be freed elsewhere. REQUIRES: `made`, if the queue has one.
  std::unique_ptr<receive::Provisioner> resize(SharedReceiveQueue& srq,
                                               const shm::ReceiveRing& ring,
                                               std::unique_ptr<receive::Provisioner> made);
  /// It gives no receive any more, and its program is told. Nothing happens if that is so already.
  void fail(SharedReceiveQueue& srq);

  // --- provisioning
  /// Makes what the tenant's shared receive queues lack to follow `policy`. Allocates, and is
  /// therefore for the control thread, outside of a task: queues come and go only by that thread's
  /// tasks.
  Provisioners make_provisioners(const Tenant& tenant, const SrqPolicy& policy,
                                 const SrqRules& rules) const;
  /// What was drawn before counts for nobody. REQUIRES: the queue has no provisioner.
  void start_provisioning(SharedReceiveQueue& srq, std::unique_ptr<receive::Provisioner> made);
  /// Sets the policy of all shared receive queues of the tenant, present and future; takes effect
  /// at once. REQUIRES: none lacks a provisioner.
  void set_policy(Tenant& tenant, const SrqPolicy& policy, const SrqRules& rules);
  /// The peer of the queue pair is another one: rules are looked through again.
  static void path_changed(QueuePair& qp);
  /// Makes what is known of the queue pair follow the rules in force. REQUIRES: it is on a shared
  /// receive queue.
  void follow_rules(QueuePair& qp);
  /// Sets what holds for one queue pair, whatever the policy says; what is not given stays.
  /// REQUIRES: it exists, on a shared receive queue that has a provisioner.
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
  /// Is there a receive to draw? True also when only drawing can tell, as for an XRC target that
  /// has no queue yet.
  static bool has_receive(QueuePair& qp);
  /// The queue pair is going.
  void leave(QueuePair& qp);

  // --- XRC targets
  /// The target draws from the queue with this number from now on. kRemoteInvalidRequest: it may
  /// use no such queue.
  Verdict choose(QueuePair& qp, std::uint32_t number);
  /// Null: there is no such queue that this target may use.
  SharedReceiveQueue* find_xrc(const QueuePair& qp, std::uint32_t number) const;

 private:
  shm::Take draw_shared(QueuePair& qp, SharedReceiveQueue& srq);
  shm::Take draw_provisioned(QueuePair& qp, SharedReceiveQueue& srq);
  std::optional<std::uint32_t> account_posts(SharedReceiveQueue& srq);
  void report(const SharedReceiveQueue& srq, QueuePair& qp, receive::Decision decision);
  void follow_rules(const QueuePair& qp, SharedReceiveQueue& srq, receive::Member& member);
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
  CompletionEvents& completion_events_;
  EventLog& log_;
  std::vector<SharedReceiveQueue*> shared_;
  std::unordered_map<std::uint32_t, SharedReceiveQueue*> xrc_;  ///< by number
  std::uint32_t next_number_ = 0;
  std::uint32_t rules_ = 1;  ///< counts the changes of any tenant's rules; never 0
};

}  // namespace softhca::engine
