// Rates of tenants. One whose rate is used up is throttled where its commands come in: its VCBs and
// doorbells are left where they are, in its own memory, and the send queue scheduler passes it
// over. What has started goes on, so that no packet, acknowledgement or retry waits for a rate.
#include <algorithm>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void Engine::set_rate(Tenant& tenant, const schedule::Rate& bytes, const schedule::Rate& messages) {
  tenant.rate.set(bytes, messages, clock_.now);
}

/// A message of the tenant starts.
void Engine::charge_rate(Tenant& tenant, std::uint32_t bytes) {
  if (!tenant.rate.limited()) return;
  tenant.rate.charge(bytes, clock_.now);
  if (tenant.throttled() || tenant.rate.ready_at() <= clock_.now) return;
  tenant.throttled_since = clock_.now;
  tenant.counters.throttled.set(1);
  throttled_.push_back(&tenant);
}

void Engine::release_throttled() {
  std::erase_if(throttled_, [this](Tenant* tenant) {
    if (clock_.now < tenant->rate.ready_at()) return false;
    tenant->counters.throttled_ns.add(
        static_cast<std::uint64_t>((clock_.now - tenant->throttled_since).count()));
    tenant->throttled_since = kNever;
    tenant->counters.throttled.set(0);
    scheduler_.unblock_tenant(tenant->id);
    for (const auto& level : tenant->levels) scheduler_.unblock_tenant(party_of(level->id));
    return true;
  });
}

Time Engine::next_release() const {
  Time next = kNever;
  for (const Tenant* tenant : throttled_) next = std::min(next, tenant->rate.ready_at());
  return next;
}

}  // namespace softhca::engine
