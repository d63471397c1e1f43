// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/peer_rates.hpp"

#include <algorithm>

#include "daemon/engine/records/session.hpp"
#include "daemon/roce/transport/codes.hpp"

namespace softhca::engine {
namespace {

/// Visits the gates that apply to operations of peers on the queue pair.
template <class Visit>
void for_each_gate(const QueuePair& target, PeerGate PeerGates::*direction, Visit&& visit) {
  visit(target.tenant->peer_rates.*direction);
  if (Level* level = level_of(target)) visit(level->peer_rates.*direction);
  if (target.sq.rates != nullptr) visit(target.sq.rates->peers.*direction);
}

}  // namespace

void PeerRates::set(PeerGate& gate, const RateLimits& limits) {
  gates_.set(gate, limits);
  if (!gates_.any_limited()) return;
  turns_.resize(slots_);
  free_.reserve(slots_);
}

void PeerRates::leave(const QueuePair& qp) {
  gates_.leave(qp.slot);
  std::erase(free_, qp.slot);
  if (!turns_.empty()) turns_[qp.slot] = {};
}

PeerGate* PeerRates::closed_gate(const QueuePair& target, Direction direction) {
  PeerGate* closed = nullptr;
  for_each_gate(target, direction, [&](PeerGate& gate) {
    if (closed == nullptr && gate.closed()) closed = &gate;
  });
  return closed;
}

/// Lets the peer wait until it may send half a burst at once: after each refusal it resends all
/// that it had in flight.
Duration PeerRates::request_wait(const QueuePair& qp) {
  if (!gates_.any_limited()) return Duration::zero();
  Time open{}, half_full{};
  for_each_gate(qp, &PeerGates::inbound, [&](const PeerGate& gate) {
    if (!gate.closed()) return;
    open = std::max(open, gate.limiter.ready_at());
    half_full = std::max(half_full, gate.limiter.half_full_at());
  });
  if (open <= clock_.now) return Duration::zero();
  Time& until = turns_[qp.slot].refused_until;
  const bool has_waited = until != Time{} && until <= clock_.now;
  if (has_waited && open - clock_.now < transport::kLongestRnrDelay) return Duration::zero();
  const Duration wait =
      std::min<Duration>(std::max(open, half_full) - clock_.now, transport::kLongestRnrDelay);
  until = clock_.now + wait;
  return wait;
}

bool PeerRates::holds(const QueuePair& who, const QueuePair& target, Direction direction) {
  if (!gates_.any_limited() || turns_[who.slot].has_waited) return false;
  if (gates_.waits(who.slot)) return true;
  PeerGate* const gate = closed_gate(target, direction);
  if (gate != nullptr) gates_.wait(who.slot, *gate);
  return gate != nullptr;
}

void PeerRates::charge(const QueuePair& target, Direction direction, std::uint32_t bytes,
                       bool begins_message) {
  for_each_gate(target, direction, [&](PeerGate& gate) {
    if (!gate.limiter.limited()) return;
    gates_.charge(gate, bytes, begins_message ? 1 : 0);
    gate.bytes.add(bytes);
  });
}

}  // namespace softhca::engine
