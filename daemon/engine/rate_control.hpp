// Rates: what a tenant, a level, the queue pairs of a TVL, or a queue pair may send. They are
// looked at where commands come in, before these have a PCB, and charged there in full. So a
// command that waits for a rate holds nothing: those of a tenant or level stay where they are, in
// its own memory, VCBs and doorbells alike; those of a TVL or queue pair go to the send queue, and
// the send queue scheduler passes the queue pair over. What has come in goes on: no packet,
// acknowledgement or retry waits for a rate.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/rate_limits.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/qp_table.hpp"
#include "daemon/engine/rate_gate.hpp"

namespace softhca::engine {

class RateControl {
 public:
  RateControl(const StepClock& clock, std::uint32_t queue_pairs, std::size_t classes,
              std::size_t tvls)
      : clock_(clock), queue_pairs_(queue_pairs), classes_(classes), tvls_(tvls) {}

  /// Takes effect with the next command; a debt stays. Allocates.
  void set(RateGate& gate, const RateLimits& limits);
  /// The gate of all queue pairs on the TVL together.
  RateGate& gate_of(TvlId tvl) { return tvls_[tvl.value]; }
  const RateGate& gate_of(TvlId tvl) const { return tvls_[tvl.value]; }
  /// The gate is going, with its tenant, level or queue pair.
  void forget(RateGate& gate);

  // --- commands that come in
  /// Does a rate of its own, or of its TVL, hold the commands of the queue pair? Those of one in
  /// the error state are flushed without delay.
  bool holds(const QueuePair& qp) { return limited_ != 0 && closed_gate(qp) != nullptr; }
  /// A command has come in.
  void admit(const QueuePair& qp, const collect::Pcb& command, CommandContext& context) {
    if (limited_ != 0) charge(qp, command, context);
  }
  /// It goes back to its send queue, and is not charged for.
  void take_back(const QueuePair& qp, const CommandContext& context);

  // --- turns at the send queue scheduler
  enum class Hold : std::uint8_t { kNone, kClass, kQueuePair };
  /// Is the queue pair, whose turn it is, held? It, or its class, has no turns until it is
  /// released.
  Hold hold(const QueuePair& qp);
  /// The queue pair waits no more.
  void leave(const QueuePair& qp);

  /// Calls `unblock_class(QosClassId)` and `unblock(slot)` for those that are no longer held. To be
  /// called in each poll step: of the queue pairs that wait for the same TVL one is released in
  /// each, since all at once would find the rate used up by the first.
  template <class UnblockClass, class Unblock>
  void release(UnblockClass&& unblock_class, Unblock&& unblock) {
    if (clock_.now < next_release()) return;
    open_due();
    for (std::uint32_t i; (i = free_classes_.pop_front(classes_.data())) != kNoIndex;)
      unblock_class(QosClassId(static_cast<std::uint16_t>(i)));
    for (RateGate *gate = passing_.front(), *after; gate != nullptr; gate = after) {
      after = LinkedList<RateGate, &RateGate::passing>::next(*gate);
      unblock(gate->queue_pairs.pop_front(queue_pairs_.data()));
      if (gate->queue_pairs.empty()) passing_.remove(*gate);
    }
  }
  /// When the next is released.
  Time next_release() const {
    if (!passing_.empty()) return Time{};
    return due_.empty() ? kNever : due_.front().at;
  }

 private:
  struct Due {
    Time at;
    RateGate* gate;
    bool operator<(const Due& other) const { return at > other.at; }  ///< the earliest is on top
  };

  RateGate* closed_gate(const QueuePair& qp);
  template <class Visit>
  void for_each_gate(const QueuePair& qp, Visit&& visit);
  void charge(const QueuePair& qp, const collect::Pcb& command, CommandContext& context);
  void close(RateGate& gate);
  void wait_until_ready(RateGate& gate);
  void wait_no_more(RateGate& gate);
  void open(RateGate& gate);
  void open_due();

  const StepClock& clock_;
  std::vector<RateWaiter> queue_pairs_;  ///< by slot
  std::vector<RateWaiter> classes_;
  std::vector<RateGate> tvls_;
  std::uint32_t limited_ = 0;  ///< gates with limits
  std::vector<Due> due_;       ///< a heap, each closed gate once
  RateWaiters free_classes_;   ///< that waited for gates that are open now
  LinkedList<RateGate, &RateGate::passing> passing_;
};

}  // namespace softhca::engine
