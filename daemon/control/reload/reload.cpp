#include "daemon/control/reload/reload.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
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
      allotments_(adapter.engine),
      given_(adapter.config) {
  for (const auto& tenant : adapter.tenants) allotments_.adopt(*tenant);
  revisions_.add("start", {}, {}, adapter.config, given_);
}

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

ReloadResult Reloader::differences() const {
  ReloadResult result;
  const auto file =
      file_.empty() ? Expected<Config>(resource::default_config()) : resource::load_config(file_);
  if (file)
    result.plan = plan_reload(*file, adapter_.config);
  else
    result.refusal = refusal(Cause::kBadFile, lines_of(file.error().message));
  return result;
}

ReloadResult Reloader::reload(const Actor& by) {
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
    const std::string summary = result.plan.summary();
    spdlog::info("reload: {}", summary);
    adapter_.journal.add({.kind = "reload", .text = summary});
    record("reload", by, result);
  } else {
    for (const std::string& line : result.refusal->lines) spdlog::error("reload: {}", line);
    spdlog::error("reload: refused, nothing has changed");
    adapter_.journal.add({.kind = "reload_refused", .text = result.refusal->lines.front()});
  }
  sd_notify(0, result ? "READY=1\nSTATUS=serving"
                      : "READY=1\nSTATUS=serving; the last reload was refused, see the log");
  return result;
}

ReloadResult Reloader::put_into_force(const Config& wanted) {
  ReloadResult result = put(wanted);
  if (!result) return result;
  given_ = wanted;
  given_.general_services = adapter_.config.general_services;
  given_.shared_datagrams = adapter_.config.shared_datagrams;
  return result;
}

ReloadResult Reloader::put(const Config& wanted) {
  ReloadResult result;
  result.plan = plan_reload(adapter_.config, wanted);
  result.refusal = check(wanted, result.plan);
  if (result.refusal || result.plan.empty()) return result;
  auto change = ReloadChange::draft(site(), wanted);
  const Outcome made = change ? apply((*change)->steps()) : Outcome(change.error());
  if (!made) {
    result.refusal = refusal(Cause::kSetup, {made.error().message});
    return result;
  }
  result.kept = commit(wanted, **change);
  for (const std::string& line : result.kept) spdlog::error("reload: {}", line);
  return result;
}

std::optional<ReloadRefusal> Reloader::check(const Config& wanted,
                                             const resource::ReloadPlan& plan) const {
  if (!plan.is_live()) return refusal(Cause::kNotLive, plan.refusals());
  auto missing = resource::check_room(adapter_.config, wanted, held_besides(wanted));
  if (!missing) return std::nullopt;
  return ReloadRefusal{Cause::kNotFree, {missing->message}, *missing};
}

resource::Held Reloader::held_besides(const Config& wanted) const {
  resource::Held held;
  for (const auto& tenant : adapter_.tenants) {
    const TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr && server_.connections(*tenant) == 0) continue;
    add_held(*tenant, entry, held);
    if (entry != nullptr) continue;
    const auto leaving = std::find_if(leaving_.begin(), leaving_.end(),
                                      [&](const Leaving& l) { return l.tenant == tenant.get(); });
    held += resource::held_by(leaving != leaving_.end() ? leaving->settings
                                                        : adapter_.settings(*tenant));
  }
  return held;
}

/// Adds what levels hold that are leaving, or will be, beyond what the tenant is configured with.
void Reloader::add_held(const engine::Tenant& tenant, const TenantConfig* wanted,
                        resource::Held& held) const {
  const TenantConfig* settings =
      wanted != nullptr ? wanted : find_tenant(adapter_.config, tenant.name);
  resource::Held levels;
  resource::HeldPart part{.tenant = tenant.name, .vcbs = 0, .pcbs = 0};
  for (const auto& level : tenant.levels) {
    if (settings != nullptr ? settings_of(*settings, *level) != nullptr : !level->control.leaving)
      continue;
    if (server_.sessions().count(*level) == 0) continue;
    ++levels.levels;
    ++levels.dedicated_pcbs;
    for (const TvlId id : allotments_.tvls(level->qos_class)) {
      const schedule::Tvl& tvl = adapter_.engine.tvls()[id];
      ++levels.tvls;
      levels.execution_credits += tvl.execution.guaranteed.value();
      levels.completion_credits += tvl.completion.guaranteed.value();
    }
    part.vcbs += level->control.vcbs.guaranteed.value();
    part.pcbs += adapter_.engine.pcbs().guaranteed(level->qos_class);
  }
  // Counts the programs from before the tenant had levels.
  if (settings != nullptr && !settings->levels.empty() && server_.sessions().undivided(tenant) != 0)
    ++levels.dedicated_pcbs;
  held += levels;
  if (wanted != nullptr && part.vcbs + part.pcbs != 0) held.parts.push_back(std::move(part));
}

engine::Tenant* Reloader::find(const std::string& name) const {
  for (const auto& tenant : adapter_.tenants)
    if (tenant->name == name) return tenant.get();
  return nullptr;
}

}  // namespace softhca::control
