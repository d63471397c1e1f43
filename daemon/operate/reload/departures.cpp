// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/departures.hpp"

#include <algorithm>
#include <utility>

#include "daemon/device/adapter/log.hpp"
#include "daemon/device/adapter/vcb_change.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/engine/requests/tenant_requests.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::control {

using configuration::Config;
using configuration::TenantConfig;

namespace {

configuration::LevelConfig last_settings(const engine::Tenant& tenant, const engine::Level& level) {
  const configuration::LevelConfig* last = settings_of(Adapter::settings(tenant), level);
  return last != nullptr ? *last : configuration::LevelConfig{.name = level.name};
}

}  // namespace

void Departures::begin(const Config& wanted, const ReloadChange& change) {
  begin_tenants(wanted, change);
  const auto now = std::chrono::steady_clock::now();
  for (const auto& level : change.allocations().released_levels) {
    server_.listeners().forget(*level);
    std::erase_if(levels_, [&](const auto& l) { return l.level == level.get(); });
  }
  for (const TenantAllocationChange::Row& row : change.allocations().there) {
    if (!may_divide(*row.to)) server_.control_sockets().close(*row.tenant);
    for (const auto& level : row.tenant->levels) {
      const configuration::LevelConfig* entry = settings_of(*row.to, *level);
      const bool stays = entry != nullptr;
      if (!stays || !entry->socket) server_.listeners().close(*level);
      if (!stays && !level->control.leaving)
        levels_.push_back({row.tenant, level.get(), last_settings(*row.tenant, *level), now});
      level->control.leaving = !stays;
    }
  }
  std::erase_if(levels_, [](const OfLevel& l) { return !l.level->control.leaving; });
}

void Departures::begin_tenants(const Config& wanted, const ReloadChange& change) {
  const auto now = std::chrono::steady_clock::now();
  for (const TenantConfig& old : adapter_.config.tenants) {
    if (find_tenant(wanted, old.name) != nullptr) continue;
    engine::Tenant& tenant = tenant_of(adapter_, old.name);
    tenant.control.leaving = true;
    server_.close_tenant(tenant);
    tenants_.push_back({&tenant, now});
  }
  for (engine::Tenant* tenant : change.opened()) tenant->control.leaving = false;
  engine::LetYield changed;
  for (const auto& tenant : adapter_.tenants)
    if (tenant->yields != tenant->control.leaving)
      changed.tenants.emplace_back(tenant.get(), tenant->control.leaving);
  adapter_.worker.run(changed);
  std::erase_if(tenants_, [](const OfTenant& leaving) { return !leaving.tenant->control.leaving; });
  for (engine::Tenant* tenant : change.allocations().released) {
    std::erase_if(tenants_, [&](const OfTenant& leaving) { return leaving.tenant == tenant; });
    remove(*tenant);
  }
}

void Departures::end_overdue() {
  const auto limit = adapter_.config.daemon.drain_timeout;
  const auto now = std::chrono::steady_clock::now();
  const auto close = [&](const auto& what, const std::string& tenant, const std::string& name,
                         bool end, bool& is_ended) {
    const std::uint64_t connections = server_.connections(what);
    if (connections == 0 || std::exchange(is_ended, true)) return;
    log_line(spdlog::level::warn, {.tenant = tenant},
             name + (end ? ": ended by request, " : ": daemon.drain_timeout_s has passed, ") +
                 std::to_string(connections) + " connections are closed");
    server_.end_sessions(what);
  };
  for (OfTenant& leaving : tenants_)
    if ((leaving.end || (limit.count() != 0 && now - leaving.since >= limit)) &&
        server_.retire(*leaving.tenant))
      close(*leaving.tenant, leaving.tenant->name, "tenant " + leaving.tenant->name, leaving.end,
            leaving.is_ended);
  for (OfLevel& leaving : levels_)
    if (limit.count() != 0 && now - leaving.since >= limit)
      close(*leaving.level, leaving.tenant->name,
            "tenant " + leaving.tenant->name + ": level " + leaving.level->name, false,
            leaving.is_ended);
}

void Departures::finish_tenants() {
  std::erase_if(tenants_, [this](const OfTenant& leaving) {
    engine::Tenant& tenant = *leaving.tenant;
    if (server_.listeners().connections(tenant) != 0 || !server_.retire(tenant)) return false;
    if (server_.channels().count(tenant, TenantChannel::Kind::kDatagrams) != 0) return false;
    server_.channels().end(tenant, TenantChannel::Kind::kEvents);
    if (server_.channels().count(tenant, TenantChannel::Kind::kEvents) != 0) return false;
    if (!adapter_.change_rows(engine::RemoveTenant{adapter_.allocations, tenant})) return false;
    take_vcbs(adapter_.vcbs, tenant);
    remove(tenant);
    return true;
  });
}

void Departures::finish_levels() {
  std::erase_if(levels_, [this](const OfLevel& leaving) {
    engine::Tenant* const tenant = leaving.tenant;
    engine::Level* const level = leaving.level;
    if (server_.sessions().count(*level) != 0) return false;
    const std::unique_ptr<engine::Level> removed =
        adapter_.change_rows(engine::RemoveLevel{adapter_.allocations, *tenant, *level});
    if (!removed) return false;
    adapter_.vcbs.set_guarantee(level->control.vcbs, tenant->control.vcbs, 0);
    server_.listeners().forget(*level);
    adapter_.journal.add(
        {.kind = "level_removed",
         .tenant = tenant->name,
         .text = "level " + level->name + ": removed, its last program has ended"});
    return true;
  });
  for (const configuration::TenantConfig& entry : adapter_.config.tenants) {
    engine::Tenant& tenant = tenant_of(adapter_, entry.name);
    if (entry.levels.empty() || !adapter_.allocations.has_whole(tenant)) continue;
    if (server_.sessions().undivided(tenant) != 0) continue;
    adapter_.change_rows(engine::ReleaseWhole{adapter_.allocations, tenant});
  }
}

/// Removes a tenant that has released all its resources.
void Departures::remove(engine::Tenant& tenant) {
  adapter_.journal.add({.kind = "tenant_removed",
                        .tenant = tenant.name,
                        .text = "removed, its last program has ended"});
  adapter_.journal.forget(tenant.name);
  server_.forget_tenant(tenant);
  former_.forget(tenant);
  std::erase_if(levels_, [&](const OfLevel& l) { return l.tenant == &tenant; });
  const std::lock_guard lock(adapter_.tenants_changing);
  std::erase_if(adapter_.tenants, [&](const auto& there) { return there.get() == &tenant; });
}

void Departures::end(const std::string& tenant) {
  for (OfTenant& leaving : tenants_)
    if (leaving.tenant->name == tenant) leaving.end = true;
}

std::optional<std::uint64_t> Departures::draining(const std::string& tenant) const {
  for (const OfTenant& leaving : tenants_)
    if (leaving.tenant->name == tenant) return server_.connections(*leaving.tenant);
  return std::nullopt;
}

configuration::Held Departures::held_besides(const Config& wanted) const {
  configuration::Held held;
  for (const auto& tenant : adapter_.tenants) {
    const TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr && server_.connections(*tenant) == 0) continue;
    add_held(*tenant, entry, held);
    if (entry == nullptr) held += configuration::held_by(adapter_.settings(*tenant));
  }
  return held;
}

/// Adds what leaving levels hold, now or after the change, beyond the tenant's configuration.
void Departures::add_held(const engine::Tenant& tenant, const TenantConfig* wanted,
                          configuration::Held& held) const {
  const TenantConfig* settings =
      wanted != nullptr ? wanted : find_tenant(adapter_.config, tenant.name);
  configuration::Held levels;
  configuration::HeldPart part{.tenant = tenant.name, .vcbs = 0, .pcbs = 0};
  for (const auto& level : tenant.levels) {
    if (settings != nullptr ? settings_of(*settings, *level) != nullptr : !level->control.leaving)
      continue;
    if (server_.sessions().count(*level) == 0) continue;
    ++levels.levels;
    ++levels.dedicated_pcbs;
    for (const TvlId id : adapter_.allocations.tvls(level->qos_class)) {
      const schedule::Tvl& tvl = adapter_.engine.tvls[id];
      ++levels.tvls;
      levels.execution_credits += tvl.execution.guaranteed.value();
      levels.completion_credits += tvl.completion.guaranteed.value();
    }
    part.vcbs += level->control.vcbs.guaranteed.value();
    part.pcbs += adapter_.engine.pcbs.guaranteed(level->qos_class);
  }
  // Counts the programs that started before the tenant had levels.
  if (settings != nullptr && !settings->levels.empty() && server_.sessions().undivided(tenant) != 0)
    ++levels.dedicated_pcbs;
  held += levels;
  part.levels = levels.levels;
  if (wanted != nullptr && part.levels != 0) held.parts.push_back(std::move(part));
}

engine::Tenant& tenant_of(const Adapter& adapter, const std::string& name) {
  return **std::ranges::find(adapter.tenants, name,
                             [](const auto& tenant) { return tenant->name; });
}

}  // namespace softhca::control
