#include "daemon/engine/rate_control.hpp"

#include <algorithm>

namespace softhca::engine {

void RateControl::charge(Tenant& tenant, std::uint32_t bytes) {
  if (!tenant.rate.limited()) return;
  tenant.rate.charge(bytes, clock_.now);
  if (tenant.throttled() || tenant.rate.ready_at() <= clock_.now) return;
  tenant.throttled_since = clock_.now;
  tenant.counters.throttled.set(1);
  throttled_.push_back(&tenant);
}

void RateControl::end(Tenant& tenant) {
  tenant.counters.throttled_ns.add(
      static_cast<std::uint64_t>((clock_.now - tenant.throttled_since).count()));
  tenant.throttled_since = kNever;
  tenant.counters.throttled.set(0);
}

Time RateControl::next_release() const {
  Time next = kNever;
  for (const Tenant* tenant : throttled_) next = std::min(next, tenant->rate.ready_at());
  return next;
}

}  // namespace softhca::engine
