#include "daemon/control/reload.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace softhca::control {
namespace {

using Cause = ReloadRefusal::Cause;
using resource::Config;
using resource::TenantConfig;

/// Type=notify-reload wants to know when the reload began.
void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
             static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool have_same_levels(const TenantConfig& a, const TenantConfig& b) {
  return std::equal(
      a.levels.begin(), a.levels.end(), b.levels.begin(), b.levels.end(),
      [](const auto& x, const auto& y) { return x.name == y.name && x.tvls == y.tvls; });
}

ReloadRefusal refusal(Cause cause, std::vector<std::string> lines) {
  return {cause, std::move(lines), {}};
}

}  // namespace

Reloader::Reloader(Adapter& adapter, Server& server, KernelGuards guards, std::string file,
                   MoveMetrics move_metrics)
    : adapter_(adapter),
      server_(server),
      guards_(std::move(guards)),
      file_(std::move(file)),
      move_metrics_(std::move(move_metrics)),
      allotments_(adapter) {}

ReloadResult Reloader::plan() const {
  ReloadResult result;
  const auto wanted =
      file_.empty() ? Expected<Config>(resource::default_config()) : resource::load_config(file_);
  if (!wanted) {
    result.refusal = refusal(Cause::kBadFile, lines_of(wanted.error().message));
    return result;
  }
  result.plan = plan_reload(adapter_.config, *wanted);
  result.refusal = check(*wanted, result.plan);
  return result;
}

ReloadResult Reloader::reload() {
  notify_reloading();
  const auto wanted =
      file_.empty() ? Expected<Config>(resource::default_config()) : resource::load_config(file_);
  ReloadResult result;
  if (wanted)
    result = put_into_force(*wanted);
  else
    result.refusal = refusal(Cause::kBadFile, lines_of(wanted.error().message));
  if (result) {
    for (const std::string& text : result.plan.texts()) spdlog::info("reload: {}", text);
    const std::string summary =
        result.plan.empty() ? "nothing has changed"
                            : std::to_string(result.plan.differences.size()) + " changes made";
    spdlog::info("reload: {}", summary);
    adapter_.journal.add({.kind = "reload", .text = summary});
  } else {
    for (const std::string& line : result.refusal->lines) spdlog::error("reload: {}", line);
    spdlog::error("reload: refused, nothing has changed");
    adapter_.journal.add({.kind = "reload_refused", .text = result.refusal->lines.front()});
  }
  sd_notify(0, result ? "READY=1\nSTATUS=serving"
                      : "READY=1\nSTATUS=serving; the last reload was refused, see the log");
  return result;
}

ReloadResult Reloader::change(std::span<const resource::AllocationChange> changes) {
  const auto wanted = resource::with_changes(adapter_.config, changes, held());
  if (wanted) {
    ReloadResult result = put_into_force(*wanted);
    if (result)
      for (const std::string& text : result.plan.texts()) {
        spdlog::info("set: {}", text);
        adapter_.journal.add({.kind = "set", .text = text});
      }
    return result;
  }
  ReloadResult result;
  result.refusal = ReloadRefusal{Cause::kNotFree, {wanted.refusal().message}, wanted.refusal()};
  return result;
}

ReloadResult Reloader::put_into_force(const Config& wanted) {
  ReloadResult result;
  result.plan = plan_reload(adapter_.config, wanted);
  result.refusal = check(wanted, result.plan);
  if (result.refusal || result.plan.empty()) return result;
  Prepared prepared;
  if (const auto ready = prepare(wanted, prepared); !ready) {
    undo(prepared);
    result.refusal = refusal(Cause::kSetup, {ready.error().message});
    return result;
  }
  commit(wanted, prepared);
  return result;
}

std::optional<ReloadRefusal> Reloader::check(const Config& wanted,
                                             const resource::ReloadPlan& plan) const {
  if (!plan.is_live()) return refusal(Cause::kNotLive, plan.refusals());
  resource::Held taken;
  for (const Leaving& leaving : leaving_) {
    const TenantConfig* back = settings_in(wanted, leaving.settings.name);
    if (back == nullptr) {
      taken += resource::held_by(leaving.settings);
    } else if (!have_same_levels(*back, leaving.settings)) {
      return refusal(Cause::kNotLive, {"tenant " + back->name +
                                       ": programs of it still run with other levels; try again "
                                       "when they have ended"});
    }
  }
  for (const TenantConfig& old : adapter_.config.tenants)
    if (settings_in(wanted, old.name) == nullptr && server_.connections(*find(old.name)) != 0)
      taken += resource::held_by(old);
  taken.tvls += allotments_.closing();
  auto missing = resource::check_room(adapter_.config, wanted, taken);
  if (!missing) return std::nullopt;
  return ReloadRefusal{Cause::kNotFree, {missing->message}, *missing};
}

resource::Held Reloader::held() const {
  resource::Held sum;
  for (const Leaving& leaving : leaving_) sum += resource::held_by(leaving.settings);
  sum.tvls += allotments_.closing();
  return sum;
}

// --- what can fail

Outcome Reloader::prepare(const Config& wanted, Prepared& prepared) {
  if (wanted.metrics.address != adapter_.config.metrics.address) {
    auto moved = move_metrics_(wanted.metrics.address);
    if (!moved) return moved.error();
    prepared.metrics = std::move(*moved);
  }
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
  for (const TenantConfig& entry : wanted.tenants) {
    engine::Tenant* tenant = find(entry.name);
    const TenantConfig* old = settings_in(adapter_.config, entry.name);
    if (old != nullptr) {
      if (old->socket == entry.socket) continue;
      prepared.permitted.emplace_back(tenant, old->socket);
      if (auto permitted = server_.permit(*tenant, entry.socket); !permitted) return permitted;
      continue;
    }
    if (tenant == nullptr) {
      auto added = std::make_unique<engine::Tenant>();
      // Rows of those that are leaving are taken; so are those of the others that are added.
      std::vector<const engine::Tenant*> rows;
      for (const auto& there : adapter_.tenants) rows.push_back(there.get());
      for (const auto& there : prepared.added) rows.push_back(there.get());
      const auto id = free_tenant_id(rows, wanted);
      if (!id) return Error{"tenant " + entry.name + ": all pools.tenants are taken", ENOSPC};
      added->id = *id;
      added->name = entry.name;
      added->addresses = addresses_of(wanted, entry);
      added->accounts.set_whole(adapter_.totals);
      tenant = added.get();
      prepared.added.push_back(std::move(added));
    }
    prepared.opened.emplace_back(tenant, entry.socket);
    if (auto opened = server_.open_tenant(*tenant, entry.socket); !opened) return opened;
  }
  return {};
}

void Reloader::undo(Prepared& prepared) {
  for (const auto& [tenant, socket] : prepared.opened) server_.close_tenant(*tenant);
  for (const auto& added : prepared.added) server_.forget_tenant(*added);
  for (const auto& [tenant, socket] : prepared.permitted)
    if (auto back = server_.permit(*tenant, socket); !back)
      spdlog::error("{}", back.error().message);
}

// --- what does not

void Reloader::commit(const Config& wanted, Prepared& prepared) {
  for (auto& [gid, guard] : prepared.guards) guards_.emplace(gid, std::move(guard));
  // Those that go are closed first: no session of them begins any more.
  for (const TenantConfig& old : adapter_.config.tenants) {
    if (settings_in(wanted, old.name) != nullptr) continue;
    engine::Tenant& tenant = *find(old.name);
    tenant.leaving = true;
    server_.close_tenant(tenant);
    leaving_.push_back({&tenant, old, std::chrono::steady_clock::now()});
  }
  for (const auto& [tenant, socket] : prepared.opened) {
    tenant->leaving = false;
    std::erase_if(leaving_, [t = tenant](const Leaving& leaving) { return leaving.tenant == t; });
  }
  finish_leaving();
  change_addresses(wanted);
  adapter_.worker.run([&](engine::Engine& engine) {
    if (const auto changed = change_engine(engine, wanted, prepared); !changed)
      spdlog::error("reload: {}", changed.error().message);
    change_ports(engine, wanted);
    engine.set_doorbells(limits_of(wanted).doorbells);
    engine.set_congestion(wanted.congestion);
    adapter_.worker.set_idle(wanted.daemon.idle == resource::IdlePolicy::kAdaptive,
                             wanted.daemon.park_after);
  });
  {
    const std::lock_guard lock(adapter_.tenants_changing);
    std::move(prepared.added.begin(), prepared.added.end(), std::back_inserter(adapter_.tenants));
  }
  const Config before = std::exchange(adapter_.config, wanted);
  change_accounts(wanted);
  change_vcbs(wanted);
  for (const auto& [tenant, socket] : prepared.opened)
    if (const auto opened = server_.open_level_sockets(*tenant); !opened)
      spdlog::error("{}", opened.error().message);
  for (const TenantConfig& entry : wanted.tenants) {
    const TenantConfig* old = settings_in(before, entry.name);
    if (old != nullptr && old->addresses == entry.addresses) continue;
    if (const auto shown = server_.show_addresses(*find(entry.name)); !shown)
      spdlog::error("{}", shown.error().message);
  }
  spdlog::set_level(spdlog::level::from_str(wanted.daemon.log_level));
  if (prepared.metrics) prepared.metrics();
}

/// On the engine's thread.
Outcome Reloader::change_engine(engine::Engine& engine, const Config& wanted, Prepared& prepared) {
  const auto for_those_there = [&](auto&& f) -> Outcome {
    for (const auto& tenant : adapter_.tenants)
      if (const TenantConfig* entry = settings_in(wanted, tenant->name))
        if (auto done = f(*tenant, *entry); !done) return done;
    return {};
  };
  allotments_.collect_closed();
  if (auto done = for_those_there([&](auto& t, auto& e) { return allotments_.shrink(t, e); });
      !done)
    return done;
  if (auto done = for_those_there([&](auto& t, auto& e) { return allotments_.grow(t, e); }); !done)
    return done;
  for (const auto& added : prepared.added)
    if (auto done = allotments_.add(*added, *settings_in(wanted, added->name)); !done) return done;
  allotments_.collect_closed();
  for (const auto& tenant : adapter_.tenants)
    if (const TenantConfig* entry = settings_in(wanted, tenant->name))
      engine.set_addresses(*tenant, addresses_of(wanted, *entry), former_of(*tenant));
  return {};
}

void Reloader::change_accounts(const Config& wanted) {
  adapter_.totals.set_limits(resource::totals_of(wanted.pools));
  for (const auto& tenant : adapter_.tenants) {
    const TenantConfig* entry = settings_in(wanted, tenant->name);
    if (entry == nullptr) continue;
    tenant->accounts.set_limits(entry->limits);
  }
}

void Reloader::change_vcbs(const Config& wanted) {
  for (const bool shrink : {true, false})
    for (const auto& tenant : adapter_.tenants)
      if (const TenantConfig* entry = settings_in(wanted, tenant->name))
        change_vcbs(*tenant, *entry, shrink);
}

/// Levels first when they shrink, last when they grow. check() has found room.
void Reloader::change_vcbs(engine::Tenant& tenant, const TenantConfig& to, bool shrink) {
  const auto set_levels = [&] {
    for (std::size_t i = 0; i < tenant.levels.size(); ++i) {
      Quota& level = tenant.levels[i]->vcbs;
      const std::uint32_t now = level.guaranteed.value();
      const std::uint32_t amount = shrink ? std::min(now, to.levels[i].vcbs) : to.levels[i].vcbs;
      if (!adapter_.vcbs.set_guarantee(level, tenant.vcbs, amount))
        spdlog::error("reload: tenant {}: no room for the VCBs of its levels", tenant.name);
    }
  };
  const auto set_total = [&] {
    std::uint32_t divided = 0;
    for (const auto& level : tenant.levels) divided += level->vcbs.guaranteed.value();
    const std::uint32_t now = tenant.vcbs.guaranteed.value() + divided;
    const std::uint32_t total = shrink ? std::min(now, to.vcbs) : to.vcbs;
    if (!adapter_.vcbs.set_guarantee(tenant.vcbs, total - divided))
      spdlog::error("reload: tenant {}: no room for {} VCBs", tenant.name, total);
    tenant.vcbs.may_share = to.shared;
  };
  if (shrink) set_levels();
  set_total();
  if (!shrink) set_levels();
}

engine::Tenant* Reloader::find(const std::string& name) const {
  for (const auto& tenant : adapter_.tenants)
    if (tenant->name == name) return tenant.get();
  return nullptr;
}

const TenantConfig* Reloader::settings_in(const Config& config, const std::string& name) const {
  for (const TenantConfig& tenant : config.tenants)
    if (tenant.name == name) return &tenant;
  return nullptr;
}

}  // namespace softhca::control
