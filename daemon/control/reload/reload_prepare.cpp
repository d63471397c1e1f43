// What of a reload can fail outside of the adapter: made before anything changes, and taken back
// when anything else fails.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "daemon/control/reload/reload.hpp"

namespace softhca::control {

using resource::Config;
using resource::TenantConfig;

Outcome Reloader::prepare(const Config& wanted, Prepared& prepared) {
  if (wanted.metrics.address != adapter_.config.metrics.address) {
    auto moved = move_metrics_(wanted.metrics.address);
    if (!moved) return moved.error();
    prepared.metrics = std::move(*moved);
  }
  if (auto ports = prepare_ports(wanted, prepared); !ports) return ports;
  for (const auto& tenant : adapter_.tenants)
    if (find_tenant(wanted, tenant->name) == nullptr && server_.connections(*tenant) == 0)
      prepared.change.gone.push_back(tenant.get());
  for (const TenantConfig& entry : wanted.tenants)
    if (auto ready = prepare_tenant(wanted, entry, prepared); !ready) return ready;
  return check_datagrams(wanted, prepared);
}

/// Tenants that come have their clients already, and those that go still have theirs, unless their
/// number is another's.
Outcome Reloader::check_datagrams(const Config& wanted, const Prepared& prepared) {
  std::vector<TenantId> gone;
  for (const engine::Tenant* tenant : prepared.change.gone)
    if (std::none_of(prepared.added.begin(), prepared.added.end(),
                     [&](const auto& added) { return added->id == tenant->id; }))
      gone.push_back(tenant->id);
  const auto check = [&](const char* what, GeneralServices& services,
                         const resource::GeneralServicesConfig& to) -> Outcome {
    auto possible = services.check(to, gone);
    if (possible) return possible;
    return Error{std::string("[") + what + "]: " + possible.error().message, possible.error().code};
  };
  auto possible = check("general_services", server_.general_services(), wanted.general_services);
  if (possible)
    possible = check("shared_datagrams", server_.shared_datagrams(), wanted.shared_datagrams);
  return possible;
}

Outcome Reloader::prepare_ports(const Config& wanted, Prepared& prepared) {
  for (const resource::PortConfig& port : wanted.ports)
    for (const resource::InterfaceAddress& address : port.addresses) {
      const auto& before = adapter_.config.ports[&port - wanted.ports.data()].addresses;
      if (std::find(before.begin(), before.end(), address) != before.end() ||
          guards_.contains(address.gid))
        continue;
      auto guard = guard_address(port, address.gid);
      if (!guard) return guard.error();
      if (*guard) prepared.guards.emplace(address.gid, std::move(**guard));
    }
  return {};
}

Outcome Reloader::prepare_tenant(const Config& wanted, const TenantConfig& entry,
                                 Prepared& prepared) {
  engine::Tenant* tenant = find(entry.name);
  const TenantConfig* old = find_tenant(adapter_.config, entry.name);
  AllotmentChange& change = prepared.change;
  if (tenant == nullptr) {
    const auto made = make_tenant(wanted, entry, prepared);
    if (!made) return made.error();
    tenant = *made;
    change.added.push_back({tenant, &entry});
  } else {
    change.there.push_back({tenant, &entry});
    if (server_.undivided_sessions(*tenant) != 0) change.whole.push_back(tenant);
    auto provisioners =
        adapter_.engine.receive_queues().make_provisioners(*tenant, policy_of(entry.srq));
    std::move(provisioners.begin(), provisioners.end(), std::back_inserter(prepared.provisioners));
  }
  if (old == nullptr) {
    prepared.opened.push_back(tenant);
    if (auto opened = server_.open_tenant(*tenant, entry.socket); !opened) return opened;
  } else if (!(old->socket == entry.socket)) {
    prepared.permitted.emplace_back(tenant, old->socket);
    if (auto permitted = server_.permit(*tenant, entry.socket); !permitted) return permitted;
  }
  if (auto ready = prepare_addresses(*tenant, addresses_of(wanted, entry), prepared); !ready)
    return ready;
  if (auto ready = prepare_desk(*tenant, entry, old, prepared); !ready) return ready;
  for (const auto& level : tenant->levels)
    if (settings_of(entry, *level) == nullptr)
      change.gone_levels.push_back({tenant, level.get(), server_.connections(*level) != 0});
  for (const resource::LevelConfig& level : entry.levels)
    if (auto ready = prepare_level(*tenant, level, prepared); !ready) return ready;
  return {};
}

/// A tenant that is added has them already.
Outcome Reloader::prepare_addresses(engine::Tenant& tenant,
                                    const std::vector<engine::Tenant::Address>& addresses,
                                    Prepared& prepared) {
  if (addresses == tenant.addresses) return {};
  auto update = server_.prepare_addresses(tenant, addresses);
  if (!update) return update.error();
  prepared.shown.emplace_back(&tenant, std::move(*update));
  return {};
}

/// Who has levels may divide among them.
Outcome Reloader::prepare_desk(engine::Tenant& tenant, const TenantConfig& entry,
                               const TenantConfig* old, Prepared& prepared) {
  if (entry.levels.empty()) return {};
  if (!server_.has_desk(tenant)) {
    prepared.opened_desks.push_back(&tenant);
    return server_.open_desk(tenant, entry.control);
  }
  if (old == nullptr || old->control == entry.control) return {};
  prepared.permitted_desks.emplace_back(&tenant, old->control);
  return server_.permit_desk(tenant, entry.control);
}

Expected<engine::Tenant*> Reloader::make_tenant(const Config& wanted, const TenantConfig& entry,
                                                Prepared& prepared) {
  // Rows of those that are leaving are taken; so are those of the others that are added.
  std::vector<const engine::Tenant*> rows;
  for (const auto& there : adapter_.tenants) rows.push_back(there.get());
  for (const auto& there : prepared.added) rows.push_back(there.get());
  auto id = free_tenant_id(rows, wanted);
  if (!id) {
    // Those that have nothing to wait for make room.
    std::erase_if(rows, [&](const engine::Tenant* tenant) {
      const auto& gone = prepared.change.gone;
      return std::find(gone.begin(), gone.end(), tenant) != gone.end();
    });
    id = free_tenant_id(rows, wanted);
  }
  if (!id) return Error{"tenant " + entry.name + ": all pools.tenants are taken", ENOSPC};
  auto& added = prepared.added.emplace_back(std::make_unique<engine::Tenant>());
  added->id = *id;
  added->name = entry.name;
  added->addresses = addresses_of(wanted, entry);
  added->accounts.set_whole(adapter_.totals);
  return added.get();
}

Outcome Reloader::prepare_level(engine::Tenant& tenant, const resource::LevelConfig& entry,
                                Prepared& prepared) {
  const auto there = std::find_if(tenant.levels.begin(), tenant.levels.end(),
                                  [&](const auto& level) { return level->name == entry.name; });
  engine::Level* level = there != tenant.levels.end() ? there->get() : nullptr;
  if (level == nullptr) {
    prepared.change.new_levels.push_back({&tenant, make_level(entry), nullptr});
    level = prepared.change.new_levels.back().level.get();
  }
  const resource::LevelConfig* old = in_force(tenant, entry.name);
  const auto had = old != nullptr ? old->socket : std::nullopt;
  if (!entry.socket || had == entry.socket) return {};
  if (!had) {
    prepared.opened_levels.push_back(level);
    return server_.open_level(tenant, *level, *entry.socket);
  }
  prepared.permitted_levels.emplace_back(&tenant, level, *had);
  return server_.permit(tenant, *level, *entry.socket);
}

void Reloader::undo(Prepared& prepared) {
  for (const engine::Tenant* tenant : prepared.opened_desks) server_.close_desk(*tenant);
  for (const auto& [tenant, socket] : prepared.permitted_desks)
    if (auto back = server_.permit_desk(*tenant, socket); !back)
      spdlog::error("{}", back.error().message);
  for (const engine::Level* level : prepared.opened_levels) server_.close_level(*level);
  for (const auto& added : prepared.change.new_levels) server_.forget_level(*added.level);
  for (const engine::Tenant* tenant : prepared.opened) server_.close_tenant(*tenant);
  for (const auto& added : prepared.added) server_.forget_tenant(*added);
  for (engine::Tenant* tenant : prepared.change.gone) {  // one of them may have had its number
    const TenantConfig* settings = find_tenant(adapter_.config, tenant->name);
    if (settings == nullptr) continue;
    if (auto back = server_.serve_connections(*tenant, *settings); !back)
      spdlog::error("{}", back.error().message);
  }
  for (const auto& [tenant, socket] : prepared.permitted)
    if (auto back = server_.permit(*tenant, socket); !back)
      spdlog::error("{}", back.error().message);
  for (const auto& [tenant, level, socket] : prepared.permitted_levels)
    if (auto back = server_.permit(*tenant, *level, socket); !back)
      spdlog::error("{}", back.error().message);
}

}  // namespace softhca::control
