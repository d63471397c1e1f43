// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/rate_gates.hpp"

#include <algorithm>

namespace softhca::engine {

void RateGates::set(RateGate& gate, const RateLimits& limits) {
  const bool before = gate.limiter.limited();
  if (gate.closed()) wait_no_more(gate);
  gate.limiter.set({limits.bytes_per_second, limits.burst_bytes},
                   {limits.messages_per_second, limits.burst_messages}, clock_.now);
  limited_ += gate.limiter.limited();
  limited_ -= before;
  if (limited_ != 0) waiters_.resize(slots_);
  due_.reserve(limited_ + 1);
  if (gate.closed()) wait_until_ready(gate);
}

void RateGates::wait(std::uint32_t slot, RateGate& gate) {
  RateWaiter& waiter = waiters_[slot];
  if (waiter.link.linked()) return;
  waiter.gate = &gate;
  gate.queue_pairs.push_back(waiters_.data(), slot);
}

void RateGates::leave(std::uint32_t slot) {
  if (!waits(slot)) return;
  RateGate& gate = *waiters_[slot].gate;
  gate.queue_pairs.remove(waiters_.data(), slot);
  if (gate.queue_pairs.empty()) passing_.remove(gate);
}

void RateGates::close(RateGate& gate) {
  gate.closed_since = clock_.now;
  gate.held.set(1);
  passing_.remove(gate);
  wait_until_ready(gate);
}

void RateGates::wait_until_ready(RateGate& gate) {
  due_.push_back({gate.limiter.ready_at(), &gate});
  std::push_heap(due_.begin(), due_.end());
}

void RateGates::wait_no_more(RateGate& gate) {
  std::erase_if(due_, [&](const Due& due) { return due.gate == &gate; });
  std::make_heap(due_.begin(), due_.end());
}

/// Removes and opens the next gate. Null: its debt has grown since it closed, and it was inserted
/// again.
RateGate* RateGates::pop_due() {
  RateGate& gate = *due_.front().gate;
  std::pop_heap(due_.begin(), due_.end());
  due_.pop_back();
  if (gate.limiter.ready_at() > clock_.now) {
    wait_until_ready(gate);
    return nullptr;
  }
  gate.held_ns.add(static_cast<std::uint64_t>((clock_.now - gate.closed_since).count()));
  gate.closed_since = kNever;
  gate.held.set(0);
  if (!gate.queue_pairs.empty()) passing_.push_back(gate);
  return &gate;
}

}  // namespace softhca::engine
