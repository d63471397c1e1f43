// SPDX-License-Identifier: Apache-2.0

// The part of a reload that cannot fail, after all steps that can.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

using configuration::Config;
using configuration::TenantConfig;

std::vector<std::string> Reloader::commit(const Config& wanted, ReloadChange& made) {
  departures_.begin(wanted, made);
  const configuration::GeneralServicesConfig general = adapter_.config.general_services;
  const configuration::GeneralServicesConfig shared = adapter_.config.shared_datagrams;
  adapter_.put_in_force(wanted);
  change_accounts(wanted);
  std::vector<std::string> kept;
  const auto change = [&](const char* section, GeneralServices& services,
                          const configuration::GeneralServicesConfig& before,
                          configuration::GeneralServicesConfig& to) {
    // A step of the change has checked this.
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
  server_.device_trees().write_cdi_file();
  return kept;
}

void Reloader::change_accounts(const Config& wanted) {
  adapter_.apply(wanted);
  for (const auto& tenant : adapter_.tenants)
    if (const TenantConfig* entry = find_tenant(wanted, tenant->name))
      server_.configure_connections(*tenant, *entry);
}

}  // namespace softhca::control
