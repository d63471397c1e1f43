// SPDX-License-Identifier: Apache-2.0

// The steps of a change of configuration.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>

#include "daemon/device/adapter/levels.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/change.hpp"

namespace softhca::control {
namespace {

using configuration::TenantConfig;

/// True if the tenant, which was leaving, still has the devices of `to`. Their addresses may
/// differ.
bool has_devices_of(const engine::Tenant& tenant, const TenantConfig& to) {
  const auto identities = [](const TenantConfig& config) {
    std::vector<configuration::TenantDevice> devices = config.devices;
    for (configuration::TenantDevice& device : devices) device.addresses.clear();
    return devices;
  };
  return identities(Adapter::settings(tenant)) == identities(to);
}

/// Logs that a part of an undo failed.
void expect_undone(const std::string& name, const Outcome& outcome) {
  if (!outcome)
    spdlog::error("reload: could not undo '{}': {}; correct it and reload again", name,
                  outcome.error().message);
}

}  // namespace

std::vector<Step> ReloadChange::steps() {
  std::vector<Step> steps;
  add_metrics_step(steps);
  add_port_steps(steps);
  add_peer_step(steps);
  // Adds the steps of tenants in the order of the configuration.
  for (const TenantConfig& entry : wanted_.tenants)
    for (const auto* rows : {&allocations_.there, &allocations_.added})
      for (const TenantAllocationChange::Row& row : *rows)
        if (row.to == &entry) add_tenant_steps(row, steps);
  steps.push_back({"shares of datagrams", [this] { return check_datagrams(); }, {}});
  add_allocation_steps(steps);
  return steps;
}

void ReloadChange::add_metrics_step(std::vector<Step>& steps) {
  if (wanted_.metrics == site_.adapter.config.metrics) return;
  steps.push_back({"metrics endpoint",
                   [this]() -> Outcome {
                     auto moved = site_.move_metrics(wanted_.metrics);
                     if (!moved) return moved.error();
                     replace_metrics_ = std::move(*moved);
                     return {};
                   },
                   [this] { replace_metrics_ = {}; }});
}

void ReloadChange::add_port_steps(std::vector<Step>& steps) {
  for (std::size_t i = 0; i < wanted_.ports.size(); ++i)
    for (const configuration::InterfaceAddress& address : wanted_.ports[i].addresses) {
      const configuration::PortConfig& before = site_.adapter.config.ports[i];
      if (std::ranges::find(before.addresses, address) != before.addresses.end() ||
          is_guarded(before, address.gid))
        continue;
      steps.push_back({"address of port " + wanted_.ports[i].name,
                       [this, &port = wanted_.ports[i], address] {
                         return guard_addresses(port, {address}, site_.adapter.kept, guards_);
                       },
                       [this, gid = address.gid] { guards_.erase(gid); }});
    }
}

/// True if the port has a guard for the address already. A guard is for one port: an address that
/// comes from another one needs a new guard.
bool ReloadChange::is_guarded(const configuration::PortConfig& before, const Gid& address) const {
  return site_.guards.contains(address) &&
         std::ranges::find(before.addresses, address, &configuration::InterfaceAddress::gid) !=
             before.addresses.end();
}

void ReloadChange::add_peer_step(std::vector<Step>& steps) {
  if (wanted_.peers == site_.adapter.config.peers) return;
  steps.push_back({"keys of peers",
                   [this]() -> Outcome {
                     auto made = engine::PeerTable::make(wanted_.peers);
                     if (!made) return made.error();
                     peers_ = std::move(*made);
                     return {};
                   },
                   [this] { peers_.reset(); }});
}

void ReloadChange::add_tenant_steps(const TenantAllocationChange::Row& row,
                                    std::vector<Step>& steps) {
  engine::Tenant& tenant = *row.tenant;
  const TenantConfig* old = find_tenant(site_.adapter.config, tenant.name);
  if (old == nullptr) {
    steps.push_back(open_tenant_step(row));
  } else if (!(old->socket == row.to->socket)) {
    const std::string name = "permissions of tenant " + tenant.name;
    steps.push_back({name,
                     [this, &tenant, &to = *row.to] {
                       return site_.server.listeners().permit(tenant, to.socket);
                     },
                     [this, &tenant, old, name] {
                       expect_undone(name, site_.server.listeners().permit(tenant, old->socket));
                     }});
  }
  add_address_step(row, steps);
  add_request_socket_step(row, steps);
  for (const configuration::LevelConfig& level : row.to->levels) add_level_step(row, level, steps);
}

bool ReloadChange::is_added(const engine::Tenant& tenant) const {
  return std::any_of(added_.begin(), added_.end(),
                     [&](const auto& added) { return added.get() == &tenant; });
}

/// Returns the step that opens a tenant that is added, or was leaving.
Step ReloadChange::open_tenant_step(const TenantAllocationChange::Row& row) {
  engine::Tenant& tenant = *row.tenant;
  return {"socket of tenant " + tenant.name,
          [this, &tenant, &to = *row.to]() -> Outcome {
            if (!is_added(tenant) && !has_devices_of(tenant, to))
              return Error{
                  "its programs still use its former devices; let them end, or end them "
                  "with `softhcactl tenant remove " +
                      tenant.name + " --end`",
                  EBUSY};
            return site_.server.open_tenant(tenant, to.socket);
          },
          [this, &tenant] {
            site_.server.close_tenant(tenant);
            if (!is_added(tenant)) return;
            site_.server.forget_tenant(tenant);
            for (engine::Tenant* gone : allocations_.gone) {
              const TenantConfig* settings = find_tenant(site_.adapter.config, gone->name);
              // The new tenant may have had its number.
              if (gone->id == tenant.id && settings != nullptr)
                expect_undone("connections of tenant " + gone->name,
                              site_.server.serve_connections(*gone, *settings));
            }
          }};
}

/// Adds the step for a tenant's addresses. An added tenant has its addresses already.
void ReloadChange::add_address_step(const TenantAllocationChange::Row& row,
                                    std::vector<Step>& steps) {
  engine::Tenant& tenant = *row.tenant;
  auto addresses = addresses_of(wanted_, *row.to);
  if (addresses == tenant.addresses) return;
  steps.push_back({"addresses of tenant " + tenant.name,
                   [this, &tenant, to = std::move(addresses)]() -> Outcome {
                     auto update = site_.server.device_trees().prepare_addresses(tenant, to);
                     if (!update) return update.error();
                     updates_.emplace_back(&tenant, std::move(*update));
                     return {};
                   },
                   [this, &tenant] {
                     std::erase_if(updates_,
                                   [&](const auto& update) { return update.first == &tenant; });
                   }});
}

/// Adds the steps for a tenant's control socket. Tenants that may divide their allocation have one.
void ReloadChange::add_request_socket_step(const TenantAllocationChange::Row& row,
                                           std::vector<Step>& steps) {
  if (!may_divide(*row.to)) return;
  engine::Tenant& tenant = *row.tenant;
  const TenantConfig* old = find_tenant(site_.adapter.config, tenant.name);
  const std::string name = "control socket of tenant " + tenant.name;
  if (!site_.server.control_sockets().contains(tenant)) {
    steps.push_back({name,
                     [this, &tenant, &to = *row.to] {
                       return site_.server.control_sockets().open(tenant, to.control);
                     },
                     [this, &tenant] { site_.server.control_sockets().close(tenant); }});
  } else if (old != nullptr && !(old->control == row.to->control)) {
    const std::string permissions = "permissions of the " + name;
    steps.push_back({permissions,
                     [this, &tenant, &to = *row.to] {
                       return site_.server.control_sockets().permit(tenant, to.control);
                     },
                     [this, &tenant, old, permissions] {
                       expect_undone(permissions,
                                     site_.server.control_sockets().permit(tenant, old->control));
                     }});
  }
}

void ReloadChange::add_level_step(const TenantAllocationChange::Row& row,
                                  const configuration::LevelConfig& entry,
                                  std::vector<Step>& steps) {
  engine::Tenant& tenant = *row.tenant;
  engine::Level& level = level_of(tenant, entry);
  const bool is_new = std::none_of(tenant.levels.begin(), tenant.levels.end(),
                                   [&](const auto& there) { return there.get() == &level; });
  const configuration::LevelConfig* old = level_in_force(site_.adapter.config, tenant, entry.name);
  const auto had = old != nullptr ? old->socket : std::nullopt;
  if (!entry.socket || had == entry.socket) return;
  const std::string name = "tenant " + tenant.name + ", level " + entry.name;
  if (!had)
    steps.push_back({"socket of " + name,
                     [this, &tenant, &level, to = *entry.socket] {
                       return site_.server.listeners().open(tenant, level, to);
                     },
                     [this, &level, is_new] {
                       is_new ? site_.server.listeners().forget(level)
                              : site_.server.listeners().close(level);
                     }});
  else
    steps.push_back({"permissions of " + name,
                     [this, &tenant, &level, to = *entry.socket] {
                       return site_.server.listeners().permit(tenant, level, to);
                     },
                     [this, &tenant, &level, name, before = *had] {
                       expect_undone("permissions of " + name,
                                     site_.server.listeners().permit(tenant, level, before));
                     }});
}

/// Checks the shares of datagrams. Added tenants have their clients already. Leaving tenants still
/// have theirs, unless an added tenant has their number.
Outcome ReloadChange::check_datagrams() const {
  std::vector<TenantId> gone;
  for (const engine::Tenant* tenant : allocations_.gone)
    if (std::none_of(added_.begin(), added_.end(),
                     [&](const auto& added) { return added->id == tenant->id; }))
      gone.push_back(tenant->id);
  const auto check = [&](const char* what, GeneralServices& services,
                         const configuration::GeneralServicesConfig& to) -> Outcome {
    auto possible = services.check(to, gone);
    if (possible) return possible;
    return Error{std::string("[") + what + "]: " + possible.error().message, possible.error().code};
  };
  Server& server = site_.server;
  auto possible = check("general_services", server.general_services(), wanted_.general_services);
  if (possible)
    possible = check("shared_datagrams", server.shared_datagrams(), wanted_.shared_datagrams);
  return possible;
}

void ReloadChange::add_allocation_steps(std::vector<Step>& steps) {
  const auto vcbs = std::make_shared<VcbChange>(site_.adapter, added_);
  steps.push_back(
      {"VCBs", [this, vcbs] { return vcbs->apply(allocations_); }, [vcbs] { vcbs->undo(); }});
  steps.push_back({"former addresses",
                   [this]() -> Outcome {
                     site_.former.change(site_.adapter.tenants, site_.adapter.config, wanted_,
                                         site_.adapter.next_session);
                     return {};
                   },
                   [this, before = site_.former] { site_.former = before; }});
  steps.push_back({"allocations", [this] { return change_engine(); }, {}});
}

/// Changes the allocations in the engine. After an error nothing has changed.
Outcome ReloadChange::change_engine() {
  Adapter& adapter = site_.adapter;
  engine::PutInForce put{.wanted = wanted_,
                         .allocations = adapter.allocations,
                         .change = allocations_,
                         .addresses = {},
                         .provisioners = std::move(provisioners_),
                         .ports = port_changes(),
                         .peers = std::move(peers_)};
  for (const TenantAllocationChange::Row& row : allocations_.there)
    put.addresses.push_back(
        {row.tenant, addresses_of(wanted_, *row.to), site_.former.of(*row.tenant)});
  {
    const std::lock_guard lock(adapter.tenants_changing);
    if (auto done = adapter.worker.run(put); !done) return done;
    std::move(added_.begin(), added_.end(), std::back_inserter(adapter.tenants));
  }
  for (const engine::PortChange& port : put.ports)
    for (const Gid& address : port.removed) site_.guards.erase(address);
  site_.guards.merge(guards_);
  change_members();
  return {};
}

/// Returns the changes of the ports' addresses and neighbours. A port continues to answer for an
/// address that sessions still have.
std::vector<engine::PortChange> ReloadChange::port_changes() const {
  std::vector<engine::PortChange> changes;
  for (std::size_t i = 0; i < wanted_.ports.size(); ++i) {
    const configuration::PortConfig& before = site_.adapter.config.ports[i];
    auto& change =
        changes.emplace_back(change_of(before, wanted_.ports[i], [&](const Gid& address) {
          return is_guarded(before, address) || guards_.contains(address);
        }));
    std::erase_if(change.removed,
                  [&](const Gid& address) { return site_.former.contains(address); });
  }
  return changes;
}

/// Updates the users and groups of levels. Does not resolve unchanged names again: tenants change
/// their own levels, too.
void ReloadChange::change_members() {
  for (const TenantAllocationChange::Row& row : allocations_.there) {
    // A tenant that was leaving and comes back is not in force.
    const auto* const before = find_tenant(site_.adapter.config, row.tenant->name);
    for (const auto& level : row.tenant->levels) {
      const configuration::LevelConfig* const from =
          before == nullptr ? nullptr : settings_of(*before, *level);
      const configuration::LevelConfig* const to = settings_of(*row.to, *level);
      if (from == nullptr || to == nullptr || from->users != to->users ||
          from->groups != to->groups)
        set_members(*level, to);
    }
  }
}

}  // namespace softhca::control
