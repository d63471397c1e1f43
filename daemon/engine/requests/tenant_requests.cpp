// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/tenant_requests.hpp"

#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

bool RemoveTenant::run(Engine& engine) const {
  if (!allocations.release(tenant)) return false;
  engine.remove_tenant(tenant);
  return true;
}

std::unique_ptr<Level> RemoveLevel::run(Engine&) const {
  return allocations.remove_level(tenant, level);
}

void ReleaseWhole::run(Engine&) const { allocations.release_whole(tenant); }

void CollectClosedTvls::run(Engine&) const { allocations.collect_closed(); }

void RenameLevel::run(Engine&) { level.name.swap(name); }

void LetYield::run(Engine& engine) const {
  for (const auto& [tenant, yields] : tenants) engine.addresses().let_yield(*tenant, yields);
}

void SetAddresses::run(Engine& engine) {
  engine.addresses().set(*to.tenant, std::move(to.addresses), std::move(to.former));
  if (gone && gone->port) engine.ports()[gone->port->value]->neighbours->remove_address(gone->gid);
}

void AdjustLending::run(Engine& engine) const {
  for (const auto& [tenant, lends_idle] : lends) tenant->lends = lends_idle;
  engine.lending().adjust(policy);
}

}  // namespace softhca::engine
