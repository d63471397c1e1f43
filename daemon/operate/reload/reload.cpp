// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/reload.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "daemon/device/adapter/levels.hpp"
#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::control {
namespace {

using Cause = ReloadRefusal::Cause;
using configuration::Config;
using configuration::TenantConfig;

/// Notifies the service manager. Type=notify-reload needs the time at which the reload began.
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

std::chrono::milliseconds since_1970() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

configuration::ReloadOutcome outcome_of(const ReloadResult& result) {
  using configuration::ReloadOutcome;
  if (result) return ReloadOutcome::kSuccess;
  switch (result.refusal->cause) {
    case Cause::kBadFile:
      return ReloadOutcome::kBadFile;
    case Cause::kNotLive:
      return ReloadOutcome::kNotLive;
    case Cause::kNotFree:
      return ReloadOutcome::kNotFree;
    case Cause::kSetup:
      break;
  }
  return ReloadOutcome::kSetup;
}

ReloadRefusal refusal(Cause cause, std::vector<std::string> lines) {
  return {cause, std::move(lines), {}};
}

}  // namespace

Reloader::Reloader(Adapter& adapter, Server& server, KernelGuards guards,
                   configuration::ConfigLoader loader, MoveMetrics move_metrics,
                   std::optional<Layers> layers, std::optional<ReloadState> earlier)
    : adapter_(adapter),
      server_(server),
      guards_(std::move(guards)),
      loader_(std::move(loader)),
      move_metrics_(std::move(move_metrics)),
      departures_(adapter, server, former_),
      given_(adapter.config),
      layers_(layers ? std::move(*layers) : Layers(adapter.config)),
      earlier_(std::move(earlier)) {
  adapter.reloads.in_force(since_1970());
  if (earlier_) return;
  const configuration::Overlaid laid = layers_.over(layers_.file());
  for (const std::string& text : layers_.skipped())
    adapter_.journal.add({.kind = "left_out", .text = text});
  report(laid);
  layers_.adopt(layers_.file(), laid);
  revisions_.add("start", {}, plan_reload(layers_.file(), adapter.config), adapter.config, given_,
                 layers_);
}

ReloadResult Reloader::plan() const {
  ReloadResult result;
  const auto wanted = loader_.load();
  if (!wanted) {
    result.refusal = refusal(Cause::kBadFile, lines_of(wanted.error().message));
    return result;
  }
  const configuration::Overlaid laid = lay_over(*wanted);
  result.plan = plan_reload(adapter_.config, laid.in_force);
  result.refusal = check_on_demand(layers_, laid);
  if (!result.refusal) result.refusal = check(laid.in_force, result.plan);
  return result;
}

/// Returns the configuration of `file` with the layers. Counts the free resources as they will be
/// with the tenants of `file`. Tenants made on demand are not leaving, nor are levels that tenants
/// have made.
configuration::Overlaid Reloader::lay_over(const Config& file) const {
  Config expected = file;
  for (const configuration::TenantOnDemand& made : layers_.tenants())
    if (const TenantConfig* tenant = find_tenant(adapter_.config, made.request.name))
      if (find_tenant(file, tenant->name) == nullptr) expected.tenants.push_back(*tenant);
  for (TenantConfig& tenant : expected.tenants)
    for (const configuration::LevelConfig& made : layers_.own_of(tenant.name).levels)
      if (find_level(tenant, made.name) == nullptr) tenant.levels.push_back(made);
  return layers_.over(file, departures_.held_besides(expected));
}

/// Reports the parts of the layers that are not in force.
void Reloader::report(const configuration::Overlaid& laid) {
  const auto say = [&](const std::string& text) {
    adapter_.journal.add({.kind = "left_out", .text = text});
  };
  if (!layers_.problem().empty()) say("no saved request is in force: " + layers_.problem());
  for (const auto& [number, why] : laid.left_out)
    say("saved request " + std::to_string(number) +
        " does not fit and is left out: " + why.message);
  for (const auto& [tenant, why] : laid.absent)
    say("tenant " + tenant + ", made on demand, is left out: " + why.message);
  report_undivided(laid);
}

void Reloader::report_undivided(const configuration::Overlaid& laid) {
  for (const auto& [tenant, why] : laid.undivided)
    adapter_.journal.add({.kind = "left_out",
                          .text = "the changes that tenant " + tenant +
                                  " made itself no longer fit and are left out: " + why.message});
}

ReloadResult Reloader::differences() const {
  ReloadResult result;
  const auto file = loader_.load();
  if (file)
    result.plan = plan_reload(*file, adapter_.config);
  else
    result.refusal = refusal(Cause::kBadFile, lines_of(file.error().message));
  return result;
}

ReloadResult Reloader::reload(const Actor& by) {
  notify_reloading();
  const auto wanted = loader_.load();
  ReloadResult result;
  if (wanted)
    result = put_over(*wanted);
  else
    result.refusal = refusal(Cause::kBadFile, lines_of(wanted.error().message));
  adapter_.reloads.add(outcome_of(result), since_1970());
  if (result) {
    for (const std::string& text : result.plan.texts()) spdlog::info("reload: {}", text);
    const std::string summary = result.plan.summary();
    adapter_.journal.add({.kind = "reload", .text = summary});
    record("reload", by, result);
  } else {
    for (const std::string& line : result.refusal->lines) spdlog::error("reload: {}", line);
    adapter_.journal.add({.kind = "reload_refused", .text = result.refusal->lines.front()});
  }
  sd_notify(0, result ? "READY=1\nSTATUS=serving"
                      : "READY=1\nSTATUS=serving; the last reload was refused, see the log");
  return result;
}

ReloadResult Reloader::put_into_force(const Config& wanted) {
  ReloadResult result = put(wanted);
  if (!result) return result;
  look_up_members();
  given_ = wanted;
  given_.general_services = adapter_.config.general_services;
  given_.shared_datagrams = adapter_.config.shared_datagrams;
  return result;
}

/// Resolves users and groups again: the user database may have changed although the configuration
/// has not.
void Reloader::look_up_members() {
  for (const auto& tenant : adapter_.tenants)
    if (const TenantConfig* entry = find_tenant(adapter_.config, tenant->name))
      for (const auto& level : tenant->levels) set_members(*level, settings_of(*entry, *level));
}

ReloadResult Reloader::put_over(const Config& file) {
  const configuration::Overlaid laid = lay_over(file);
  ReloadResult result;
  result.refusal = check_on_demand(layers_, laid);
  if (!result) return result;
  result = put_into_force(laid.in_force);
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
                                             const configuration::ReloadPlan& plan) const {
  if (!plan.is_live()) return refusal(Cause::kNotLive, plan.refusals());
  auto missing =
      configuration::check_room(adapter_.config, wanted, departures_.held_besides(wanted));
  if (!missing) return std::nullopt;
  return ReloadRefusal{Cause::kNotFree, {missing->message}, *missing};
}

}  // namespace softhca::control
