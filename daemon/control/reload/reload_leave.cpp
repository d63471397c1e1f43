// What goes away slowly: tenants that were removed, and addresses that queue pairs still have.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/control/reload/reload.hpp"
#include "daemon/control/reload/vcb_change.hpp"

namespace softhca::control {

void Reloader::tick() {
  end_overdue();
  finish_leaving();
  finish_leaving_levels();
  forget_addresses();
  if (allotments_.closing() != 0)
    adapter_.change_rows([&](engine::Engine&) { allotments_.collect_closed(); });
}

/// Ends tenants and levels that have not drained in the time they had.
void Reloader::end_overdue() {
  const auto limit = adapter_.config.daemon.drain_timeout;
  if (limit.count() == 0) return;
  const auto now = std::chrono::steady_clock::now();
  const auto close = [&](const auto& what, const std::string& name) {
    const std::uint64_t connections = server_.connections(what);
    if (connections == 0) return;
    spdlog::warn("{}: its time to drain is over, {} connections are closed", name, connections);
    server_.end_sessions(what);
  };
  for (const Leaving& leaving : leaving_)
    if (now - leaving.since >= limit && server_.retire(*leaving.tenant))
      close(*leaving.tenant, "tenant " + leaving.tenant->name);
  for (const LeavingLevel& leaving : leaving_levels_)
    if (now - leaving.since >= limit)
      close(*leaving.level, "tenant " + leaving.tenant->name + ": level " + leaving.level->name);
}

void Reloader::finish_leaving() {
  std::erase_if(leaving_, [this](const Leaving& leaving) {
    engine::Tenant& tenant = *leaving.tenant;
    if (server_.listeners().connections(tenant) != 0 || !server_.retire(tenant)) return false;
    if (server_.channels().count(tenant, TenantChannel::Kind::kDatagrams) != 0) return false;
    bool released = false;
    adapter_.change_rows([&](engine::Engine& engine) {
      released = allotments_.release(tenant);
      if (released) engine.remove_tenant(tenant);
    });
    if (!released) return false;
    take_vcbs(adapter_.vcbs, tenant);
    remove(tenant);
    return true;
  });
}

void Reloader::finish_leaving_levels() {
  std::erase_if(leaving_levels_, [this](const LeavingLevel& leaving) {
    engine::Tenant* const tenant = leaving.tenant;
    engine::Level* const level = leaving.level;
    if (server_.sessions().count(*level) != 0) return false;
    std::unique_ptr<engine::Level> removed;
    const std::lock_guard lock(adapter_.tenants_changing);
    adapter_.worker.run(
        [&](engine::Engine&) { removed = allotments_.remove_level(*tenant, *level); });
    if (!removed) return false;
    adapter_.vcbs.set_guarantee(level->control.vcbs, tenant->control.vcbs, 0);
    server_.listeners().forget(*level);
    spdlog::info("tenant {}: level {}: gone", tenant->name, level->name);
    adapter_.journal.add(
        {.kind = "level_removed", .tenant = tenant->name, .text = level->name + " has drained"});
    return true;
  });
  for (const resource::TenantConfig& entry : adapter_.config.tenants) {
    engine::Tenant& tenant = *find(entry.name);
    if (entry.levels.empty() || !allotments_.has_whole(tenant)) continue;
    if (server_.sessions().undivided(tenant) != 0) continue;
    adapter_.change_rows([&](engine::Engine&) { allotments_.release_whole(tenant); });
  }
}

/// Removes a tenant that has given back all it had.
void Reloader::remove(engine::Tenant& tenant) {
  spdlog::info("tenant {}: gone", tenant.name);
  adapter_.journal.add({.kind = "tenant_removed", .tenant = tenant.name, .text = "it has drained"});
  server_.forget_tenant(tenant);
  former_.forget(tenant);
  std::erase_if(leaving_levels_, [&](const LeavingLevel& l) { return l.tenant == &tenant; });
  const std::lock_guard lock(adapter_.tenants_changing);
  std::erase_if(adapter_.tenants, [&](const auto& there) { return there.get() == &tenant; });
}

void Reloader::forget_addresses() {
  const auto gone = former_.take_over([this](const FormerAddresses::Entry& former) {
    return server_.sessions().oldest(*former.tenant) >= former.session;
  });
  for (const FormerAddresses::Entry& former : gone) {
    const Gid& gid = former.address.gid;
    const bool held = former_.contains(gid);
    bool configured = false;
    for (const resource::PortConfig& port : adapter_.config.ports)
      for (const resource::InterfaceAddress& address : port.addresses)
        configured = configured || address.gid == gid;
    adapter_.worker.run([&](engine::Engine& engine) {
      engine.addresses().set(*former.tenant, former.tenant->addresses, former_.of(*former.tenant));
      if (former.address.port && !held && !configured)
        engine.ports()[former.address.port->value]->neighbours->remove_address(gid);
    });
    if (!held && !configured) guards_.erase(gid);
  }
}

}  // namespace softhca::control
