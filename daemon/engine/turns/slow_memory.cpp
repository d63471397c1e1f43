// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/slow_memory.hpp"

#include <algorithm>

#include "daemon/engine/records/tenant.hpp"
#include "daemon/roce/transport/codes.hpp"

namespace softhca::engine {
namespace {

/// In nanoseconds instead of bytes: 1 % of the time, and bursts of 20 ms.
constexpr RateLimits kShare{.bytes_per_second = 10'000'000, .burst_bytes = 20'000'000};

}  // namespace

RateGate& SlowMemory::gate_of(Tenant& tenant) { return tenant.slow_memory; }

void SlowMemory::add(Tenant& tenant) { gates_.set(tenant.slow_memory, kShare); }

void SlowMemory::waited(Tenant& tenant, Duration time) {
  any_ = true;
  const bool before = tenant.slow_memory.closed();
  gates_.charge(tenant.slow_memory, static_cast<std::uint64_t>(time.count()), 0);
  if (tenant.slow_memory.closed() && !before) tenant.counters.memory.held.add();
}

bool SlowMemory::is_slow(const Tenant& tenant) const { return tenant.slow_memory.closed(); }

bool SlowMemory::holds(const QueuePair& qp, Tenant& owner) {
  if (!owner.slow_memory.closed()) return false;
  gates_.wait(qp.slot, owner.slow_memory);
  return true;
}

Duration SlowMemory::request_wait(const QueuePair& qp) const {
  const RateGate& gate = qp.tenant->slow_memory;
  if (!gate.closed()) return Duration::zero();
  return std::clamp<Duration>(gate.limiter.ready_at() - clock_.now, Duration(1),
                              transport::kLongestRnrDelay);
}

}  // namespace softhca::engine
