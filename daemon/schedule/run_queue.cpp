#include "daemon/schedule/run_queue.hpp"

namespace softhca::schedule {
namespace {

// Virtual time starts anew here: half of what the tags hold, so that none overflows before.
constexpr std::uint64_t kRestart = std::uint64_t{1} << 62;

}  // namespace

void RunQueue::reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t parties) {
  entries_.resize(slots);
  parties_.resize(parties);
  tenants_.resize(tenants);
  order_.reserve(tenants);
}

void RunQueue::join(TenantId id, TenantId tenant) {
  Party& party = parties_[id.value];
  if (party.tenant == tenant.value) return;
  assert(!party.share.waits());
  if (party.tenant != kNoIndex) --tenants_[party.tenant].parties;
  party = Party{};
  party.tenant = tenant.value;
  Tenant& owner = tenants_[tenant.value];
  owner.order.reserve(++owner.parties);
}

void RunQueue::push(std::uint32_t slot, TenantId party) {
  if (contains(slot)) return;
  entries_[slot].party = party;
  parties_[party.value].queue.push_back(entries_.data(), slot);
  if (!parties_[party.value].share.waits()) enter(party.value);
}

std::optional<std::uint32_t> RunQueue::pop() {
  if (order_.empty()) return std::nullopt;
  if (order_.now() >= kRestart) order_.restart(tenants_, [](const Tenant&) { return true; });
  order_.serve(tenants_.data());
  const std::uint32_t owner = order_.first();
  Tenant& tenant = tenants_[owner];
  if (tenant.order.now() >= kRestart) {
    tenant.order.restart(parties_, [owner](const Party& party) { return party.tenant == owner; });
  }
  tenant.order.serve(parties_.data());
  const std::uint32_t id = tenant.order.first();
  Party& party = parties_[id];
  overtaken_ = party.rested && contended(TenantId(static_cast<std::uint16_t>(id)));
  party.rested = false;
  const std::uint32_t slot = party.queue.pop_front(entries_.data());
  if (party.queue.empty()) leave(id);
  return slot;
}

void RunQueue::served(std::uint32_t slot, std::uint64_t cost, bool more) {
  const TenantId id = entries_[slot].party;
  Party& party = parties_[id.value];
  Tenant& tenant = tenants_[party.tenant];
  tenant.order.served(parties_.data(), id.value, cost);
  order_.served(tenants_.data(), party.tenant, cost);
  if (more) push(slot, id);
  party.rested = party.queue.empty();
}

void RunQueue::charge(TenantId id, std::uint64_t cost) {
  Party& party = parties_[id.value];
  tenants_[party.tenant].order.charge(parties_.data(), id.value, cost);
  order_.charge(tenants_.data(), party.tenant, cost);
}

void RunQueue::remove(std::uint32_t slot) {
  if (!contains(slot)) return;
  const std::uint32_t id = entries_[slot].party.value;
  Party& party = parties_[id];
  party.queue.remove(entries_.data(), slot);
  if (!party.queue.empty()) return;
  party.rested = true;
  leave(id);
}

bool RunQueue::may_begin(TenantId id, std::uint64_t lead) const {
  const Party& party = parties_[id.value];
  const Tenant& tenant = tenants_[party.tenant];
  if (order_.others(tenants_.data(), party.tenant) &&
      order_.lead(tenants_.data(), party.tenant) > lead)
    return false;
  return !tenant.order.others(parties_.data(), id.value) ||
         tenant.order.lead(parties_.data(), id.value) <= lead;
}

/// Its first queue pair with work.
void RunQueue::enter(std::uint32_t id) {
  const std::uint32_t tenant = parties_[id].tenant;
  const bool rested = parties_[id].rested;
  tenants_[tenant].order.enter(parties_.data(), id, rested);
  if (!tenants_[tenant].share.waits()) order_.enter(tenants_.data(), tenant, rested);
}

/// Its last.
void RunQueue::leave(std::uint32_t id) {
  const std::uint32_t tenant = parties_[id].tenant;
  tenants_[tenant].order.leave(parties_.data(), id);
  if (tenants_[tenant].order.empty()) order_.leave(tenants_.data(), tenant);
}

}  // namespace softhca::schedule
