// SPDX-License-Identifier: Apache-2.0

// Requests of the operator to the resource manager, and plans of requests.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/configuration/config_check.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

using configuration::AllocationResult;
using configuration::TenantConfig;
using Changes = std::span<const configuration::AllocationChange>;

namespace {

/// Prepares the file of saved changes. Refuses if the request of this number, or a saved request
/// that fits now, would not fit after a reload or restart.
std::optional<ReloadRefusal> prepare_to_save(const Layers& layers,
                                             const std::vector<configuration::SavedRequest>& saved,
                                             std::uint64_t number) {
  const auto misfit = [&](const configuration::Overlaid& laid,
                          const std::string& when) -> std::optional<ReloadRefusal> {
    for (const auto& [left, why] : laid.left_out) {
      if (layers.left_out().contains(left)) continue;
      const std::string which =
          left == number ? "this request" : "saved request " + std::to_string(left);
      return ReloadRefusal{
          ReloadRefusal::Cause::kNotFree,
          {which + " would not fit the configuration file after a " + when + ": " + why.message},
          why};
    }
    return std::nullopt;
  };
  if (auto why =
          misfit(configuration::lay_over(layers.file(), layers.tenants(), saved, {}), "reload"))
    return why;
  if (auto why = misfit(layers.after_restart(saved, layers.tenants()), "restart")) return why;
  if (const auto written = layers.prepare(saved); !written)
    return ReloadRefusal{ReloadRefusal::Cause::kSetup, {written.error().message}, {}};
  return std::nullopt;
}

}  // namespace

ReloadResult Reloader::change(Changes changes, const Actor& by, bool save) {
  if (auto why = find_own_level(changes)) {
    ReloadResult result;
    result.refusal = std::move(why);
    return result;
  }
  const std::vector<configuration::AllocationChange> list(changes.begin(), changes.end());
  configuration::Overlaid laid = laid_now();
  const AllocationResult wanted = configuration::lay_changes(
      laid, changes, layers_.own(), departures_.held_besides(adapter_.config));
  std::vector<configuration::SavedRequest> saved;
  if (save && wanted) {
    saved = layers_.with(list);
    if (auto why = prepare_to_save(layers_, saved, saved.back().number)) {
      ReloadResult result;
      result.refusal = std::move(why);
      return result;
    }
  }
  ReloadResult result = put_changes(wanted, by);
  if (!result) return result;
  given_.tenants = std::move(laid.given.tenants);
  layers_.forget_own(list);
  layers_.drop_undivided(laid);
  report_undivided(laid);
  if (save)
    if (const auto kept = layers_.keep(std::move(saved)); !kept)
      result.kept.push_back("in force, but not saved: " + kept.error().message);
  record("set", by, result);
  return result;
}

/// Returns a refusal if a change names a level that a tenant has made. Only the tenant may change
/// it.
std::optional<ReloadRefusal> Reloader::find_own_level(Changes changes) const {
  for (const configuration::AllocationChange& change : changes) {
    const TenantConfig* tenant = find_tenant(adapter_.config, change.tenant);
    const auto* level = tenant != nullptr ? find_level(*tenant, change.level) : nullptr;
    if (level == nullptr || !level->own) continue;
    const std::string who = "tenant " + change.tenant;
    return refusal_of(
        {configuration::AllocationRefusal::Cause::kNotAllowed, who, name_of(change.setting), 0, 0,
         who + ": level " + change.level +
             " was made by the tenant itself; set the whole tenant, or use softhcactl --as " +
             change.tenant});
  }
  return std::nullopt;
}

/// Returns what the operator has given and what is in force now.
configuration::Overlaid Reloader::laid_now() const {
  return {.given = given_,
          .in_force = adapter_.config,
          .left_out = {},
          .absent = {},
          .undivided = {},
          .without_amounts = {}};
}

ReloadResult Reloader::drop_saved(std::span<const std::uint64_t> numbers) {
  ReloadResult result;
  std::vector<configuration::SavedRequest> saved = layers_.saved();
  for (const std::uint64_t number : numbers)
    if (std::ranges::find(saved, number, &configuration::SavedRequest::number) == saved.end()) {
      result.refusal = ReloadRefusal{
          ReloadRefusal::Cause::kNotFree,
          {"no such saved request: " + std::to_string(number) + "; softhcactl diff lists them"},
          {}};
      return result;
    }
  std::erase_if(saved, [&](const configuration::SavedRequest& request) {
    return numbers.empty() || std::ranges::find(numbers, request.number) != numbers.end();
  });
  auto dropped = layers_.prepare(saved, numbers.empty());
  if (dropped) dropped = layers_.keep(std::move(saved));
  if (!dropped)
    result.refusal = ReloadRefusal{ReloadRefusal::Cause::kSetup, {dropped.error().message}, {}};
  return result;
}

ReloadResult Reloader::put_changes(const AllocationResult& wanted, const Actor& by) {
  ReloadResult result;
  if (!wanted) {
    result.refusal = refusal_of(wanted.refusal());
    return result;
  }
  result = put(*wanted);
  if (!result) return result;
  // The entry names the tenant, so the text need not.
  const std::string whose = "tenant " + by.tenant + ": ";
  for (const configuration::Difference& difference : result.plan.differences) {
    std::string text = difference.text();
    if (text.starts_with(whose)) text.erase(0, whose.size());
    adapter_.journal.add({.kind = "set", .tenant = by.tenant, .text = std::move(text)});
  }
  return result;
}

ReloadResult Reloader::rollback(std::uint64_t number, const Actor& by) {
  const Revision* const revision = revisions_.find(number);
  if (revision == nullptr) {
    ReloadResult result;
    result.refusal = ReloadRefusal{
        ReloadRefusal::Cause::kNotFree,
        {"no such revision: " + std::to_string(number) + "; softhcactl revisions lists them"},
        {}};
    return result;
  }
  configuration::Config wanted = adapter_.config;
  wanted.tenants = tenants_of(revision->in_force);
  ReloadResult result;
  if (const auto possible = configuration::check_together(wanted); !possible) {
    result.refusal = ReloadRefusal{ReloadRefusal::Cause::kSetup, {possible.error().message}, {}};
    return result;
  }
  std::vector<TenantConfig> given = tenants_of(revision->given);
  configuration::SubAllocations own = revision->own;
  std::vector<configuration::TenantOnDemand> on_demand = *revision->on_demand;
  result = put(wanted);
  if (!result) return result;
  given_.tenants = std::move(given);
  layers_.set_own(std::move(own));
  layers_.restore_tenants(std::move(on_demand));
  for (const std::string& text : result.plan.texts()) spdlog::info("rollback: {}", text);
  const std::string summary = "to revision " + std::to_string(number);
  adapter_.journal.add({.kind = "rollback", .text = summary});
  record(("rollback " + summary).c_str(), by, result);
  return result;
}

PlannedRequest Reloader::plan_change(Changes changes) const {
  if (auto why = find_own_level(changes)) {
    PlannedRequest planned;
    planned.result.refusal = std::move(why);
    return planned;
  }
  configuration::Overlaid laid = laid_now();
  return plan_request(configuration::lay_changes(laid, changes, layers_.own(),
                                                 departures_.held_besides(adapter_.config)));
}

PlannedRequest Reloader::plan_own_change(const engine::Tenant& tenant, Changes changes) const {
  PlannedRequest planned = plan_request(with_own_changes(tenant, changes));
  for (auto* shares : {&planned.before, &planned.after})
    std::erase_if(*shares, [&](const auto& share) { return share.tenant != tenant.name; });
  return planned;
}

PlannedRequest Reloader::plan_request(const AllocationResult& wanted) const {
  PlannedRequest planned;
  if (!wanted) {
    planned.result.refusal = refusal_of(wanted.refusal());
    return planned;
  }
  planned.result.plan = plan_reload(adapter_.config, *wanted);
  planned.result.refusal = check(*wanted, planned.result.plan);
  if (!planned.result) return planned;
  const configuration::Held held = departures_.held_besides(adapter_.config);
  planned.before = configuration::expected_shares(adapter_.config, held);
  planned.after = configuration::expected_shares(*wanted, held);
  return planned;
}

}  // namespace softhca::control
