// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/change.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "daemon/device/adapter/levels.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/frontend/unix/server/server.hpp"

namespace softhca::control {

using configuration::Config;
using configuration::TenantConfig;

const configuration::LevelConfig* level_in_force(const Config& config, const engine::Tenant& tenant,
                                                 const std::string& level) {
  const TenantConfig* settings = find_tenant(config, tenant.name);
  return settings != nullptr ? find_level(*settings, level) : nullptr;
}

Expected<std::unique_ptr<ReloadChange>> ReloadChange::draft(const Site& site,
                                                            const Config& wanted) {
  std::unique_ptr<ReloadChange> change(new ReloadChange(site, wanted));
  for (const auto& tenant : site.adapter.tenants)
    if (find_tenant(wanted, tenant->name) == nullptr && site.server.connections(*tenant) == 0)
      change->allocations_.gone.push_back(tenant.get());
  if (wanted.pools.dedicated_pcbs != site.adapter.config.pools.dedicated_pcbs)
    change->allocations_.dedicated_pcbs = wanted.pools.dedicated_pcbs;
  for (const TenantConfig& entry : wanted.tenants)
    if (auto drafted = change->draft_tenant(entry); !drafted) return drafted.error();
  return change;
}

Outcome ReloadChange::draft_tenant(const TenantConfig& entry) {
  const auto& tenants = site_.adapter.tenants;
  const auto there = std::find_if(tenants.begin(), tenants.end(),
                                  [&](const auto& tenant) { return tenant->name == entry.name; });
  engine::Tenant* tenant = nullptr;
  if (there == tenants.end()) {
    const auto added = add_tenant(entry);
    if (!added) return added.error();
    tenant = *added;
    allocations_.added.push_back({tenant, &entry});
  } else {
    tenant = there->get();
    allocations_.there.push_back({tenant, &entry});
    if (site_.server.sessions().undivided(*tenant) != 0) allocations_.whole.push_back(tenant);
    auto provisioners =
        site_.adapter.engine.receive_queues.make_provisioners(*tenant, entry.srq, entry.srq_rules);
    std::move(provisioners.begin(), provisioners.end(), std::back_inserter(provisioners_));
  }
  if (find_tenant(site_.adapter.config, entry.name) == nullptr) opened_.push_back(tenant);
  draft_levels(*tenant, entry);
  return {};
}

Expected<engine::Tenant*> ReloadChange::add_tenant(const TenantConfig& entry) {
  // Leaving tenants and the tenants added so far occupy rows.
  std::vector<const engine::Tenant*> rows;
  for (const auto& there : site_.adapter.tenants) rows.push_back(there.get());
  for (const auto& there : added_) rows.push_back(there.get());
  auto id = free_tenant_id(rows, wanted_);
  if (!id) {
    // Removed tenants without connections free their rows.
    std::erase_if(rows, [&](const engine::Tenant* tenant) {
      const auto& gone = allocations_.gone;
      return std::find(gone.begin(), gone.end(), tenant) != gone.end();
    });
    id = free_tenant_id(rows, wanted_);
  }
  if (!id) return Error{"tenant " + entry.name + ": all pools.tenants are in use", ENOSPC};
  auto& added = added_.emplace_back(make_tenant(*id, wanted_, entry));
  added->control.accounts.set_whole(site_.adapter.totals);
  return added.get();
}

void ReloadChange::draft_levels(engine::Tenant& tenant, const TenantConfig& entry) {
  for (const auto& level : tenant.levels)
    if (settings_of(entry, *level) == nullptr)
      allocations_.gone_levels.push_back(
          {&tenant, level.get(), site_.server.sessions().count(*level) != 0});
  for (const configuration::LevelConfig& level : entry.levels)
    if (std::none_of(tenant.levels.begin(), tenant.levels.end(),
                     [&](const auto& there) { return there->name == level.name; }))
      allocations_.new_levels.push_back({&tenant, make_level(level), nullptr});
}

/// Returns a level of a tenant, existing or new. REQUIRES: the level is drafted.
engine::Level& ReloadChange::level_of(const engine::Tenant& tenant,
                                      const configuration::LevelConfig& entry) const {
  const auto there = std::find_if(tenant.levels.begin(), tenant.levels.end(),
                                  [&](const auto& level) { return level->name == entry.name; });
  if (there != tenant.levels.end()) return **there;
  const auto& added = allocations_.new_levels;
  return *std::find_if(added.begin(), added.end(),
                       [&](const TenantAllocationChange::NewLevel& level) {
                         return level.tenant == &tenant && level.level->name == entry.name;
                       })
              ->level;
}

void ReloadChange::finish() {
  for (auto& [tenant, update] : updates_) site_.server.show_addresses(*tenant, update);
  if (!updates_.empty()) site_.server.device_trees().check_links();  // ports have other numbers
  if (replace_metrics_) replace_metrics_();
}

}  // namespace softhca::control
