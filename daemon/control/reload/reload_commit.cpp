// The part of a reload that cannot fail, after everything that can.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/control/adapter/clock.hpp"
#include "daemon/control/reload/reload.hpp"

namespace softhca::control {

using resource::Config;
using resource::TenantConfig;

std::vector<std::string> Reloader::commit(const Config& wanted, ReloadChange& made) {
  leave(wanted, made);
  const resource::GeneralServicesConfig general = adapter_.config.general_services;
  const resource::GeneralServicesConfig shared = adapter_.config.shared_datagrams;
  adapter_.config = wanted;
  change_accounts(wanted);
  std::vector<std::string> kept;
  const auto change = [&](const char* section, GeneralServices& services,
                          const resource::GeneralServicesConfig& before,
                          resource::GeneralServicesConfig& to) {
    // It has been checked.
    const Outcome changed = services.change(to, now());
    if (changed) return;
    to = before;
    kept.push_back("[" + std::string(section) + "] not applied, old values stay in force: " +
                   changed.error().message + "; correct it and reload");
  };
  change("general_services", server_.general_services(), general, adapter_.config.general_services);
  change("shared_datagrams", server_.shared_datagrams(), shared, adapter_.config.shared_datagrams);
  spdlog::set_level(spdlog::level::from_str(wanted.daemon.log_level));
  made.finish();
  return kept;
}

/// Tenants and levels that go, and those that come back.
void Reloader::leave(const Config& wanted, const ReloadChange& change) {
  const auto now = std::chrono::steady_clock::now();
  for (const TenantConfig& old : adapter_.config.tenants) {
    if (find_tenant(wanted, old.name) != nullptr) continue;
    engine::Tenant& tenant = *find(old.name);
    tenant.control.leaving = true;
    server_.close_tenant(tenant);
    leaving_.push_back({&tenant, old, now});
  }
  for (engine::Tenant* tenant : change.opened()) tenant->control.leaving = false;
  adapter_.worker.run([&](engine::Engine& engine) {
    for (const auto& tenant : adapter_.tenants)
      if (tenant->yields != tenant->control.leaving)
        engine.addresses().let_yield(*tenant, tenant->control.leaving);
  });
  std::erase_if(leaving_, [](const Leaving& leaving) { return !leaving.tenant->control.leaving; });
  for (engine::Tenant* tenant : change.allotments().released) {
    std::erase_if(leaving_, [&](const Leaving& leaving) { return leaving.tenant == tenant; });
    remove(*tenant);
  }
  for (const auto& level : change.allotments().released_levels) {
    server_.listeners().forget(*level);
    std::erase_if(leaving_levels_, [&](const auto& l) { return l.level == level.get(); });
  }
  for (const AllotmentChange::Row& row : change.allotments().there) {
    if (row.to->levels.empty()) server_.control_sockets().close(*row.tenant);
    for (const auto& level : row.tenant->levels) {
      const resource::LevelConfig* entry = settings_of(*row.to, *level);
      const bool stays = entry != nullptr;
      if (!stays || !entry->socket) server_.listeners().close(*level);
      if (!stays && !level->control.leaving)
        leaving_levels_.push_back({row.tenant, level.get(), now});
      level->control.leaving = !stays;
    }
  }
  std::erase_if(leaving_levels_, [](const LeavingLevel& l) { return !l.level->control.leaving; });
}

void Reloader::change_accounts(const Config& wanted) {
  adapter_.totals.set_limits(resource::totals_of(wanted.pools));
  for (const auto& tenant : adapter_.tenants) {
    const TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr) continue;
    tenant->control.accounts.set_limits(entry->limits);
    server_.configure_connections(*tenant, *entry);
  }
}

}  // namespace softhca::control
