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
                   MoveMetrics move_metrics, std::optional<Layers> layers)
    : adapter_(adapter),
      server_(server),
      guards_(std::move(guards)),
      file_(std::move(file)),
      move_metrics_(std::move(move_metrics)),
      allotments_(adapter.engine),
      given_(adapter.config),
      layers_(layers ? std::move(*layers) : Layers(adapter.config)) {
  for (const auto& tenant : adapter.tenants) allotments_.adopt(*tenant);
  const resource::Overlaid laid = layers_.over(layers_.file());
  report(laid);
  layers_.adopt(layers_.file(), laid);
  revisions_.add("start", {}, plan_reload(layers_.file(), adapter.config), adapter.config, given_,
                 layers_.own());
}

ReloadResult Reloader::plan() const {
  ReloadResult result;
  const auto wanted =
      file_.empty() ? Expected<Config>(resource::default_config()) : resource::load_config(file_);
  if (!wanted) {
    result.refusal = refusal(Cause::kBadFile, lines_of(wanted.error().message));
    return result;
  }
  const Config laid = lay_over(*wanted).in_force;
  result.plan = plan_reload(adapter_.config, laid);
  result.refusal = check(laid, result.plan);
  return result;
}

/// Room is taken account of as it will be with the tenants of `file`.
resource::Overlaid Reloader::lay_over(const Config& file) const {
  return layers_.over(file, held_besides(file));
}

/// Says what of that which lies over the file is not in force.
void Reloader::report(const resource::Overlaid& laid) {
  const auto say = [&](const std::string& text) {
    spdlog::warn("{}", text);
    adapter_.journal.add({.kind = "left_out", .text = text});
  };
  if (!layers_.problem().empty()) say("nothing that was saved is in force: " + layers_.problem());
  for (const auto& [number, why] : laid.left_out)
    say("saved request " + std::to_string(number) +
        " does not fit and is left out: " + why.message);
  for (const auto& [tenant, why] : laid.undivided)
    say("what tenant " + tenant + " had changed of its own does not fit any more: " + why.message);
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
    result = put_over(*wanted);
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

ReloadResult Reloader::put_over(const Config& file) {
  const resource::Overlaid laid = lay_over(file);
  ReloadResult result = put_into_force(laid.in_force);
  if (!result) return result;
  given_.tenants = laid.given.tenants;
  report(laid);
  layers_.adopt(file, laid);
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
