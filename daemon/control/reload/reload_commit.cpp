// Putting a reload into force: the allocations, which are made as a whole or not at all, then what
// cannot fail.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "daemon/control/adapter/clock.hpp"
#include "daemon/control/reload/reload.hpp"

namespace softhca::control {

using resource::Config;
using resource::TenantConfig;

/// The VCBs of all, as they were.
struct Reloader::VcbBooks {
  QuotaPool pool;
  std::vector<std::pair<Quota*, Quota>> quotas;
};

Reloader::VcbBooks Reloader::vcb_books(const Prepared& prepared) const {
  VcbBooks books{adapter_.vcbs, {}};
  const auto add = [&](engine::Tenant& tenant) {
    books.quotas.emplace_back(&tenant.vcbs, tenant.vcbs);
    for (const auto& level : tenant.levels) books.quotas.emplace_back(&level->vcbs, level->vcbs);
  };
  for (const auto& tenant : adapter_.tenants) add(*tenant);
  for (const auto& tenant : prepared.added) add(*tenant);
  return books;
}

/// Errors: nothing has changed.
Outcome Reloader::allocate(const Config& wanted, Prepared& prepared) {
  const VcbBooks vcbs = vcb_books(prepared);
  const auto former = former_;
  Outcome done = change_vcbs(prepared);
  if (done) {
    change_addresses(wanted);
    const std::lock_guard lock(adapter_.tenants_changing);
    adapter_.worker.run([&](engine::Engine& engine) {
      done = allotments_.change(prepared.change);
      if (done) change_engine(engine, wanted, prepared);
    });
    if (done)
      std::move(prepared.added.begin(), prepared.added.end(), std::back_inserter(adapter_.tenants));
  }
  if (done) return done;
  adapter_.vcbs = vcbs.pool;
  for (const auto& [quota, before] : vcbs.quotas) *quota = before;
  former_ = former;
  return done;
}

/// On the engine's thread: what goes with the allocations, and cannot fail.
void Reloader::change_engine(engine::Engine& engine, const Config& wanted, Prepared& prepared) {
  for (auto& [gid, guard] : prepared.guards) guards_.emplace(gid, std::move(guard));
  for (const AllotmentChange::Row& row : prepared.change.there)
    engine.addresses().set(*row.tenant, addresses_of(wanted, *row.to), former_of(*row.tenant));
  for (auto& [srq, provisioner] : prepared.provisioners)
    engine.receive_queues().start_provisioning(*srq, std::move(provisioner));
  for (const auto* rows : {&prepared.change.there, &prepared.change.added})
    for (const auto& [tenant, to] : *rows) {
      engine.receive_queues().set_policy(*tenant, policy_of(to->srq));
      set_rate(to->rate, *tenant, engine);
    }
  change_ports(engine, wanted);
  engine.set_doorbells(limits_of(wanted).doorbells);
  engine.set_congestion(wanted.congestion);
  adapter_.worker.set_idle(wanted.daemon.idle == resource::IdlePolicy::kAdaptive,
                           wanted.daemon.park_after);
}

void Reloader::commit(const Config& wanted, Prepared& prepared) {
  leave(wanted, prepared);
  adapter_.config = wanted;
  change_accounts(wanted);
  change_datagrams(server_.general_services(), wanted.general_services);
  change_datagrams(server_.shared_datagrams(), wanted.shared_datagrams);
  for (auto& [tenant, update] : prepared.shown) server_.show_addresses(*tenant, update);
  spdlog::set_level(spdlog::level::from_str(wanted.daemon.log_level));
  if (prepared.metrics) prepared.metrics();
}

/// REQUIRES: it has been checked.
void Reloader::change_datagrams(GeneralServices& services,
                                const resource::GeneralServicesConfig& to) {
  if (auto changed = services.change(to, now()); !changed)
    spdlog::error("{} goes on as it was: {}", services.party().name, changed.error().message);
}

/// Tenants and levels that go, and those that come back.
void Reloader::leave(const Config& wanted, Prepared& prepared) {
  const auto now = std::chrono::steady_clock::now();
  for (const TenantConfig& old : adapter_.config.tenants) {
    if (find_tenant(wanted, old.name) != nullptr) continue;
    engine::Tenant& tenant = *find(old.name);
    tenant.leaving = true;
    server_.close_tenant(tenant);
    leaving_.push_back({&tenant, old, now});
  }
  for (engine::Tenant* tenant : prepared.opened) tenant->leaving = false;
  adapter_.worker.run([](engine::Engine& engine) { engine.addresses().refresh(); });
  std::erase_if(leaving_, [](const Leaving& leaving) { return !leaving.tenant->leaving; });
  for (engine::Tenant* tenant : prepared.change.released) {
    std::erase_if(leaving_, [&](const Leaving& leaving) { return leaving.tenant == tenant; });
    remove(*tenant);
  }
  for (const auto& level : prepared.change.released_levels) {
    server_.forget_level(*level);
    std::erase_if(leaving_levels_, [&](const auto& l) { return l.level == level.get(); });
  }
  for (const AllotmentChange::Row& row : prepared.change.there) {
    if (row.to->levels.empty()) server_.close_desk(*row.tenant);
    for (const auto& level : row.tenant->levels) {
      const resource::LevelConfig* entry = settings_of(*row.to, *level);
      const bool stays = entry != nullptr;
      if (!stays || !entry->socket) server_.close_level(*level);
      if (!stays && !level->leaving) leaving_levels_.push_back({row.tenant, level.get(), now});
      level->leaving = !stays;
    }
  }
  std::erase_if(leaving_levels_, [](const LeavingLevel& l) { return !l.level->leaving; });
}

void Reloader::change_accounts(const Config& wanted) {
  adapter_.totals.set_limits(resource::totals_of(wanted.pools));
  for (const auto& tenant : adapter_.tenants) {
    const TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr) continue;
    tenant->accounts.set_limits(entry->limits);
    server_.configure_connections(*tenant, *entry);
  }
}

// --- VCBs, whose accounts are of this thread

Outcome Reloader::change_vcbs(Prepared& prepared) {
  const AllotmentChange& change = prepared.change;
  for (engine::Tenant* tenant : change.gone) take_vcbs_of(*tenant);
  for (const AllotmentChange::OldLevel& old : change.gone_levels)
    if (!old.in_use) adapter_.vcbs.set_guarantee(old.level->vcbs, old.tenant->vcbs, 0);
  for (const bool shrink : {true, false})
    for (const auto* rows : {&change.there, &change.added})
      for (const AllotmentChange::Row& row : *rows)
        if (auto done = change_vcbs(row, change, shrink); !done) return done;
  return {};
}

/// Levels first when they shrink, last when they grow.
Outcome Reloader::change_vcbs(const AllotmentChange::Row& row, const AllotmentChange& change,
                              bool shrink) {
  engine::Tenant& tenant = *row.tenant;
  std::vector<engine::Level*> levels;
  for (const auto& level : tenant.levels) levels.push_back(level.get());
  for (const AllotmentChange::NewLevel& added : change.new_levels)
    if (added.tenant == &tenant) levels.push_back(added.level.get());
  const auto set_levels = [&] {
    for (engine::Level* level : levels) {
      const resource::LevelConfig* entry = settings_of(*row.to, *level);
      if (entry == nullptr) continue;
      const std::uint32_t now = level->vcbs.guaranteed.value();
      const std::uint32_t amount = shrink ? std::min(now, entry->vcbs) : entry->vcbs;
      if (!adapter_.vcbs.set_guarantee(level->vcbs, tenant.vcbs, amount)) return false;
      level->vcbs.may_share = entry->shared;
    }
    return true;
  };
  const auto set_total = [&] {
    std::uint32_t divided = 0;
    for (const engine::Level* level : levels) divided += level->vcbs.guaranteed.value();
    const std::uint32_t now = tenant.vcbs.guaranteed.value() + divided;
    const std::uint32_t total = shrink ? std::min(now, row.to->vcbs) : row.to->vcbs;
    tenant.vcbs.may_share = row.to->shared;
    return total >= divided && adapter_.vcbs.set_guarantee(tenant.vcbs, total - divided);
  };
  const bool done = shrink ? set_levels() && set_total() : set_total() && set_levels();
  if (done) return {};
  return Error{"tenant " + tenant.name + ": no room for its VCBs", ENOSPC};
}

}  // namespace softhca::control
