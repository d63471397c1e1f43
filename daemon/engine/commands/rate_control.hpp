// SPDX-License-Identifier: Apache-2.0

// Rate limits on what a tenant, a level or a queue pair may send. The engine checks them before it
// fetches a command into a PCB, and charges the command there in full. A command that waits for a
// rate therefore holds no resource. Commands of a tenant or level stay where they are: in its own
// memory, VCBs and doorbells. Commands of a queue pair go to the send queue, and the send queue
// scheduler skips the queue pair. Fetched commands continue: no packet, acknowledgement or retry
// waits for a rate.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/records/qp_table.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/rate_gates.hpp"
#include "daemon/qos/pools/rate_limits.hpp"

namespace softhca::engine {

class RateControl {
 public:
  RateControl(const StepClock& clock, std::uint32_t queue_pairs, std::size_t classes)
      : clock_(clock), gates_(clock, queue_pairs), classes_(classes) {}

  /// Sets the limits of a gate. They take effect with the next command. A debt remains. Allocates.
  void set(RateGate& gate, const RateLimits& limits) { gates_.set(gate, limits); }
  /// Removes the gate with its tenant, level or queue pair.
  void forget(RateGate& gate);

  // --- commands that are fetched
  /// True if a rate of the queue pair or of its level holds its commands. Commands in
  /// the error state are never held: they are flushed without delay.
  bool holds(const QueuePair& qp) { return gates_.any_limited() && closed_gate(qp) != nullptr; }
  /// Charges for a command that was fetched.
  void admit(const QueuePair& qp, const collect::Pcb& command, CommandContext& context) {
    if (gates_.any_limited()) charge(qp, command, context);
  }
  /// Refunds a command that goes back to its send queue.
  void take_back(const QueuePair& qp, const CommandContext& context);

  // --- turns at the send queue scheduler
  enum class Hold : std::uint8_t { kNone, kClass, kQueuePair };
  /// Returns what holds the queue pair that has its turn now. It, or its class, has no turns until
  /// release().
  Hold hold(const QueuePair& qp) {
    return gates_.any_limited() && qp.state != QpState::kError ? hold_closed(qp) : Hold::kNone;
  }
  /// Ends the wait of the queue pair.
  void leave(const QueuePair& qp) { gates_.leave(qp.slot); }

  /// Calls `unblock_class(QosClassId)` and `unblock(slot)` for those that are no longer held.
  /// REQUIRES: called in each poll step.
  template <class UnblockClass, class Unblock>
  void release(UnblockClass&& unblock_class, Unblock&& unblock) {
    if (clock_.now < next_release()) return;
    gates_.open_due([&](RateGate& gate) {
      for (std::uint32_t i; (i = gate.classes.pop_front(classes_.data())) != kNoIndex;)
        unblock_class(QosClassId(static_cast<std::uint16_t>(i)));
    });
    gates_.pass(unblock);
  }
  /// Returns when release() has work next.
  Time next_release() const { return gates_.next(); }

 private:
  Hold hold_closed(const QueuePair& qp);
  RateGate* closed_gate(const QueuePair& qp);
  template <class Visit>
  void for_each_gate(const QueuePair& qp, Visit&& visit);
  void charge(const QueuePair& qp, const collect::Pcb& command, CommandContext& context);

  const StepClock& clock_;
  RateGates gates_;
  std::vector<RateWaiter> classes_;
};

}  // namespace softhca::engine
