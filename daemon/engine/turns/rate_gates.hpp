// SPDX-License-Identifier: Apache-2.0

// The gates of rate limits: which are closed, when they open, and which queue pairs wait for each.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/records/rate_gate.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/qos/pools/rate_limits.hpp"

namespace softhca::engine {

class RateGates {
 public:
  /// The memory for `queue_pairs` queue pairs is allocated when a gate is first limited.
  RateGates(const StepClock& clock, std::uint32_t queue_pairs)
      : clock_(clock), slots_(queue_pairs) {}

  bool any_limited() const { return limited_ != 0; }
  /// Sets the limits of a gate. They take effect with the next charge. A debt remains. Allocates.
  void set(RateGate& gate, const RateLimits& limits);
  /// Charges the gate. It closes if it is in debt then.
  void charge(RateGate& gate, std::uint64_t bytes, std::uint32_t messages) {
    if (!gate.limiter.limited()) return;
    gate.limiter.charge(bytes, clock_.now, messages);
    if (!gate.closed() && gate.limiter.ready_at() > clock_.now) close(gate);
  }
  /// Removes the gate. Calls `visit(slot)` for each queue pair that waited for it.
  template <class Visit>
  void forget(RateGate& gate, Visit&& visit) {
    set(gate, {});
    if (gate.closed()) wait_no_more(gate);
    for (std::uint32_t i; (i = gate.queue_pairs.pop_front(waiters_.data())) != kNoIndex;) visit(i);
    passing_.remove(gate);
  }

  /// Makes the queue pair wait for the gate, unless it already waits for one. REQUIRES: the gate is
  /// closed.
  void wait(std::uint32_t slot, RateGate& gate);
  bool waits(std::uint32_t slot) const {
    return slot < waiters_.size() && waiters_[slot].link.linked();
  }
  /// Ends the wait of the queue pair.
  void leave(std::uint32_t slot);

  /// Opens the gates that have paid their debt, and calls `opened(gate)` for each.
  template <class Opened>
  void open_due(Opened&& opened) {
    while (!due_.empty() && due_.front().at <= clock_.now)
      if (RateGate* gate = pop_due()) opened(*gate);
  }
  /// Calls `visit(slot)` for one waiting queue pair of each open gate. If all went at once, the
  /// first would use up the rate.
  template <class Visit>
  void pass(Visit&& visit) {
    for (RateGate *gate = passing_.front(), *after; gate != nullptr; gate = after) {
      after = LinkedList<RateGate, &RateGate::passing>::next(*gate);
      const std::uint32_t slot = gate->queue_pairs.pop_front(waiters_.data());
      if (gate->queue_pairs.empty()) passing_.remove(*gate);
      visit(slot);
    }
  }
  /// Returns when there is a gate to open or a queue pair to pass.
  Time next() const {
    if (!passing_.empty()) return Time{};
    return due_.empty() ? kNever : due_.front().at;
  }

 private:
  struct Due {
    Time at;
    RateGate* gate;
    bool operator<(const Due& other) const { return at > other.at; }  ///< the earliest is on top
  };

  void close(RateGate& gate);
  void wait_until_ready(RateGate& gate);
  void wait_no_more(RateGate& gate);
  RateGate* pop_due();

  const StepClock& clock_;
  std::uint32_t slots_;
  std::vector<RateWaiter> waiters_;  ///< by slot of the queue pair
  std::uint32_t limited_ = 0;        ///< gates with limits
  std::vector<Due> due_;             ///< a heap, each closed gate once
  LinkedList<RateGate, &RateGate::passing> passing_;
};

}  // namespace softhca::engine
