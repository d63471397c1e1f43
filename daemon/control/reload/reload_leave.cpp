// What goes away slowly: tenants that were removed, and addresses that queue pairs still have.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/control/reload/reload.hpp"

namespace softhca::control {

void Reloader::tick() {
  end_overdue();
  finish_leaving();
  finish_leaving_levels();
  forget_addresses();
  if (allotments_.closing() != 0)
    adapter_.change_rows([&](engine::Engine&) { allotments_.collect_closed(); });
}

/// What has not drained in the time it had.
void Reloader::end_overdue() {
  const auto patience = adapter_.config.daemon.drain_timeout;
  if (patience.count() == 0) return;
  const auto now = std::chrono::steady_clock::now();
  const auto close = [&](const auto& what, const std::string& name) {
    const std::uint64_t connections = server_.connections(what);
    if (connections == 0) return;
    spdlog::warn("{}: its time to drain is over, {} connections are closed", name, connections);
    server_.end_sessions(what);
  };
  for (const Leaving& leaving : leaving_)
    if (now - leaving.since >= patience && server_.retire(*leaving.tenant))
      close(*leaving.tenant, "tenant " + leaving.tenant->name);
  for (const LeavingLevel& leaving : leaving_levels_)
    if (now - leaving.since >= patience)
      close(*leaving.level, "tenant " + leaving.tenant->name + ": level " + leaving.level->name);
}

void Reloader::finish_leaving() {
  std::erase_if(leaving_, [this](const Leaving& leaving) {
    engine::Tenant& tenant = *leaving.tenant;
    if (server_.sessions(tenant) != 0 || !server_.retire(tenant)) return false;
    if (server_.connections(tenant, TenantChannel::Kind::kDatagrams) != 0) return false;
    bool released = false;
    adapter_.change_rows([&](engine::Engine& engine) {
      released = allotments_.release(tenant);
      if (released) engine.remove_tenant(tenant);
    });
    if (!released) return false;
    take_vcbs_of(tenant);
    remove(tenant);
    return true;
  });
}

void Reloader::finish_leaving_levels() {
  std::erase_if(leaving_levels_, [this](const LeavingLevel& leaving) {
    engine::Tenant* const tenant = leaving.tenant;
    engine::Level* const level = leaving.level;
    if (server_.connections(*level) != 0) return false;
    std::unique_ptr<engine::Level> removed;
    const std::lock_guard lock(adapter_.tenants_changing);
    adapter_.worker.run(
        [&](engine::Engine&) { removed = allotments_.remove_level(*tenant, *level); });
    if (!removed) return false;
    adapter_.vcbs.set_guarantee(level->vcbs, tenant->vcbs, 0);
    server_.forget_level(*level);
    spdlog::info("tenant {}: level {}: gone", tenant->name, level->name);
    adapter_.journal.add(
        {.kind = "level_removed", .tenant = tenant->name, .text = level->name + " has drained"});
    return true;
  });
  for (const resource::TenantConfig& entry : adapter_.config.tenants) {
    engine::Tenant& tenant = *find(entry.name);
    if (entry.levels.empty() || !allotments_.has_whole(tenant)) continue;
    if (server_.undivided_sessions(tenant) != 0) continue;
    adapter_.change_rows([&](engine::Engine&) { allotments_.release_whole(tenant); });
  }
}

/// REQUIRES: it has no sessions.
void Reloader::take_vcbs_of(engine::Tenant& tenant) {
  for (const auto& level : tenant.levels) adapter_.vcbs.set_guarantee(level->vcbs, tenant.vcbs, 0);
  adapter_.vcbs.set_guarantee(tenant.vcbs, 0);
}

/// It has given back all it had.
void Reloader::remove(engine::Tenant& tenant) {
  spdlog::info("tenant {}: gone", tenant.name);
  adapter_.journal.add({.kind = "tenant_removed", .tenant = tenant.name, .text = "it has drained"});
  server_.forget_tenant(tenant);
  std::erase_if(former_, [&](const FormerAddress& former) { return former.tenant == &tenant; });
  std::erase_if(leaving_levels_, [&](const LeavingLevel& l) { return l.tenant == &tenant; });
  const std::lock_guard lock(adapter_.tenants_changing);
  std::erase_if(adapter_.tenants, [&](const auto& there) { return there.get() == &tenant; });
}

/// Queue pairs and address handles that there are keep their source addresses.
void Reloader::change_addresses(const resource::Config& wanted) {
  for (const auto& tenant : adapter_.tenants) {
    const resource::TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr) continue;
    const auto has = [&](const Gid& gid) {
      return std::find(entry->addresses.begin(), entry->addresses.end(), gid) !=
             entry->addresses.end();
    };
    for (const engine::Tenant::Address& address : tenant->addresses)
      if (!has(address.gid)) former_.push_back({tenant.get(), address, adapter_.next_session});
    std::erase_if(former_, [&](const FormerAddress& former) {
      return former.tenant == tenant.get() && has(former.address.gid);
    });
  }
}

std::vector<engine::Tenant::Address> Reloader::former_of(const engine::Tenant& tenant) const {
  std::vector<engine::Tenant::Address> addresses;
  for (const FormerAddress& former : former_)
    if (former.tenant == &tenant) addresses.push_back(former.address);
  return addresses;
}

/// On the engine's thread. A port goes on answering for an address that sessions still have.
void Reloader::change_ports(engine::Engine& engine, const resource::Config& wanted) {
  for (std::size_t i = 0; i < wanted.ports.size(); ++i) {
    const resource::PortConfig& now = wanted.ports[i];
    const resource::PortConfig& before = adapter_.config.ports[i];
    neighbour::Neighbours& neighbours = *engine.ports()[i]->neighbours;
    for (const resource::InterfaceAddress& address : now.addresses)
      if (std::find(before.addresses.begin(), before.addresses.end(), address) ==
          before.addresses.end())
        neighbours.add_address({address.gid, address.prefix, !guards_.contains(address.gid)});
    neighbours.set_gateway(now.gateway4.value_or(Gid{}), now.gateway6.value_or(Gid{}));
    if (now.addresses != before.addresses) neighbours.announce();
    for (const resource::InterfaceAddress& address : before.addresses) {
      const bool kept = std::any_of(now.addresses.begin(), now.addresses.end(),
                                    [&](const auto& a) { return a.gid == address.gid; });
      const bool held = std::any_of(former_.begin(), former_.end(), [&](const auto& former) {
        return former.address.gid == address.gid;
      });
      if (kept || held) continue;
      neighbours.remove_address(address.gid);
      guards_.erase(address.gid);
    }
  }
}

void Reloader::forget_addresses() {
  std::vector<FormerAddress> gone;
  std::erase_if(former_, [&](const FormerAddress& former) {
    if (server_.oldest_session(*former.tenant) < former.session) return false;
    gone.push_back(former);
    return true;
  });
  for (const FormerAddress& former : gone) {
    const Gid& gid = former.address.gid;
    const bool held = std::any_of(former_.begin(), former_.end(),
                                  [&](const auto& other) { return other.address.gid == gid; });
    bool configured = false;
    for (const resource::PortConfig& port : adapter_.config.ports)
      for (const resource::InterfaceAddress& address : port.addresses)
        configured = configured || address.gid == gid;
    adapter_.worker.run([&](engine::Engine& engine) {
      engine.addresses().set(*former.tenant, former.tenant->addresses, former_of(*former.tenant));
      if (former.address.port && !held && !configured)
        engine.ports()[former.address.port->value]->neighbours->remove_address(gid);
    });
    if (!held && !configured) guards_.erase(gid);
  }
}

}  // namespace softhca::control
