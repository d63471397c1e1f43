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
#include "daemon/engine/rate_gates.hpp"

namespace softhca::engine {

class RateControl {
 public:
  RateControl(const StepClock& clock, std::uint32_t queue_pairs, std::size_t classes,
              std::size_t tvls)
      : clock_(clock), gates_(clock, queue_pairs), classes_(classes), tvls_(tvls) {}

  /// Takes effect with the next command; a debt stays. Allocates.
  void set(RateGate& gate, const RateLimits& limits) { gates_.set(gate, limits); }
  /// The gate of all queue pairs on the TVL together.
  RateGate& gate_of(TvlId tvl) { return tvls_[tvl.value]; }
  const RateGate& gate_of(TvlId tvl) const { return tvls_[tvl.value]; }
  /// The gate is going, with its tenant, level or queue pair.
  void forget(RateGate& gate);

  // --- commands that come in
  /// Does a rate of its own, of its TVL or of its level hold the commands of the queue pair? Those
  /// of one in the error state are flushed without delay.
  bool holds(const QueuePair& qp) { return gates_.any_limited() && closed_gate(qp) != nullptr; }
  /// A command has come in.
  void admit(const QueuePair& qp, const collect::Pcb& command, CommandContext& context) {
    if (gates_.any_limited()) charge(qp, command, context);
  }
  /// It goes back to its send queue, and is not charged for.
  void take_back(const QueuePair& qp, const CommandContext& context);

  // --- turns at the send queue scheduler
  enum class Hold : std::uint8_t { kNone, kClass, kQueuePair };
  /// Is the queue pair, whose turn it is, held? It, or its class, has no turns until it is
  /// released.
  Hold hold(const QueuePair& qp);
  /// The queue pair waits no more.
  void leave(const QueuePair& qp) { gates_.leave(qp.slot); }

  /// Calls `unblock_class(QosClassId)` and `unblock(slot)` for those that are no longer held. To be
  /// called in each poll step.
  template <class UnblockClass, class Unblock>
  void release(UnblockClass&& unblock_class, Unblock&& unblock) {
    if (clock_.now < next_release()) return;
    gates_.open_due([&](RateGate& gate) {
      for (std::uint32_t i; (i = gate.classes.pop_front(classes_.data())) != kNoIndex;)
        unblock_class(QosClassId(static_cast<std::uint16_t>(i)));
    });
    gates_.pass(unblock);
  }
  /// When the next is released.
  Time next_release() const { return gates_.next(); }

 private:
  RateGate* closed_gate(const QueuePair& qp);
  template <class Visit>
  void for_each_gate(const QueuePair& qp, Visit&& visit);
  void charge(const QueuePair& qp, const collect::Pcb& command, CommandContext& context);

  const StepClock& clock_;
  RateGates gates_;
  std::vector<RateWaiter> classes_;
  std::vector<RateGate> tvls_;
};

}  // namespace softhca::engine
