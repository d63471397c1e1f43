// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/vcb_change.hpp"

#include <algorithm>
#include <cerrno>

#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::control {

void take_vcbs(QuotaPool& pool, engine::Tenant& tenant) {
  for (const auto& level : tenant.levels)
    pool.set_guarantee(level->control.vcbs, tenant.control.vcbs, 0);
  pool.set_guarantee(tenant.control.vcbs, 0);
}

VcbChange::VcbChange(Adapter& adapter, const std::vector<std::unique_ptr<engine::Tenant>>& added)
    : pool_(adapter.vcbs), pool_before_(adapter.vcbs) {
  const auto keep = [&](engine::Tenant& tenant) {
    before_.emplace_back(&tenant.control.vcbs, tenant.control.vcbs);
    for (const auto& level : tenant.levels)
      before_.emplace_back(&level->control.vcbs, level->control.vcbs);
  };
  for (const auto& tenant : adapter.tenants) keep(*tenant);
  for (const auto& tenant : added) keep(*tenant);
}

Outcome VcbChange::apply(const TenantAllocationChange& change) {
  for (engine::Tenant* tenant : change.gone) take_vcbs(pool_, *tenant);
  for (const TenantAllocationChange::OldLevel& old : change.gone_levels)
    if (!old.in_use) pool_.set_guarantee(old.level->control.vcbs, old.tenant->control.vcbs, 0);
  for (const bool shrink : {true, false})
    for (const auto* rows : {&change.there, &change.added})
      for (const TenantAllocationChange::Row& row : *rows)
        if (auto done = apply(row, change, shrink); !done) return done;
  return {};
}

void VcbChange::undo() {
  pool_ = pool_before_;
  for (const auto& [quota, before] : before_) *quota = before;
}

/// Changes the guarantees of a tenant. Its levels come first when they shrink, last when they grow.
Outcome VcbChange::apply(const TenantAllocationChange::Row& row,
                         const TenantAllocationChange& change, bool shrink) {
  std::vector<engine::Level*> levels;
  for (const auto& level : row.tenant->levels) levels.push_back(level.get());
  for (const TenantAllocationChange::NewLevel& added : change.new_levels)
    if (added.tenant == row.tenant) levels.push_back(added.level.get());
  const bool done = shrink ? set_levels(row, levels, shrink) && set_total(row, levels, shrink)
                           : set_total(row, levels, shrink) && set_levels(row, levels, shrink);
  if (done) return {};
  return Error{"tenant " + row.tenant->name + ": pools.vcbs has no room for its VCBs", ENOSPC};
}

bool VcbChange::set_levels(const TenantAllocationChange::Row& row,
                           const std::vector<engine::Level*>& levels, bool shrink) {
  for (engine::Level* level : levels) {
    const configuration::LevelConfig* entry = settings_of(*row.to, *level);
    if (entry == nullptr) continue;
    const std::uint32_t now = level->control.vcbs.guaranteed.value();
    const std::uint32_t amount = shrink ? std::min(now, entry->vcbs) : entry->vcbs;
    if (!pool_.set_guarantee(level->control.vcbs, row.tenant->control.vcbs, amount)) return false;
    level->control.vcbs.may_share = entry->shared;
  }
  return true;
}

bool VcbChange::set_total(const TenantAllocationChange::Row& row,
                          const std::vector<engine::Level*>& levels, bool shrink) {
  std::uint32_t divided = 0;
  for (const engine::Level* level : levels) divided += level->control.vcbs.guaranteed.value();
  const std::uint32_t now = row.tenant->control.vcbs.guaranteed.value() + divided;
  const std::uint32_t total = shrink ? std::min(now, row.to->vcbs) : row.to->vcbs;
  row.tenant->control.vcbs.may_share = row.to->shared;
  return total >= divided && pool_.set_guarantee(row.tenant->control.vcbs, total - divided);
}

}  // namespace softhca::control
