// Requests to the resource manager: of the operator, and of tenants for their own levels.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/control/reload/reload.hpp"
#include "daemon/resource/config_check.hpp"

namespace softhca::control {

using resource::AllocationResult;
using resource::TenantConfig;
using Changes = std::span<const resource::AllocationChange>;

namespace {

/// Of a request that the resource manager does not accept.
ReloadRefusal refusal_of(const AllocationResult& result) {
  return {ReloadRefusal::Cause::kNotFree, {result.refusal().message}, result.refusal()};
}

}  // namespace

ReloadResult Reloader::change(Changes changes, const Actor& by, bool save) {
  const std::vector<resource::AllocationChange> list(changes.begin(), changes.end());
  const auto wanted =
      resource::with_changes(adapter_.config, changes, held_besides(adapter_.config));
  std::vector<resource::SavedRequest> saved;
  if (save && wanted) {
    saved = layers_.with(list);
    if (auto why = prepare_to_save(saved, saved.back().number)) {
      ReloadResult result;
      result.refusal = std::move(why);
      return result;
    }
  }
  ReloadResult result = put_changes(wanted, by);
  if (!result) return result;
  layers_.forget_own(list);
  if (save)
    if (const auto kept = layers_.keep(std::move(saved)); !kept)
      result.kept.push_back("in force, but not saved: " + kept.error().message);
  for (const resource::AllocationChange& change : changes)
    for (TenantConfig& tenant : given_.tenants)
      if (tenant.name == change.tenant) tenant = *find_tenant(adapter_.config, change.tenant);
  record("set", by, result);
  return result;
}

ReloadResult Reloader::change_own(const engine::Tenant& tenant, Changes changes, const Actor& by) {
  Actor self = by;
  self.tenant = tenant.name;
  ReloadResult result = put_changes(with_own_changes(tenant, changes), self);
  if (!result) return result;
  layers_.add_own(tenant.name, {changes.begin(), changes.end()});
  record("set", self, result);
  return result;
}

/// Writes what is to be saved, if all of it will be in force that was until now, and the request of
/// this number.
std::optional<ReloadRefusal> Reloader::prepare_to_save(
    const std::vector<resource::SavedRequest>& saved, std::uint64_t number) const {
  const auto laid = resource::lay_over(layers_.file(), saved, {});
  for (const auto& [left, why] : laid.left_out) {
    if (layers_.left_out().contains(left)) continue;
    const std::string which = left == number ? "it" : "saved request " + std::to_string(left);
    return ReloadRefusal{
        ReloadRefusal::Cause::kNotFree,
        {which + " would not fit after a reload, over the configuration file: " + why.message},
        why};
  }
  if (const auto written = layers_.prepare(saved); !written)
    return ReloadRefusal{ReloadRefusal::Cause::kSetup, {written.error().message}, {}};
  return std::nullopt;
}

ReloadResult Reloader::drop_saved(std::span<const std::uint64_t> numbers) {
  ReloadResult result;
  std::vector<resource::SavedRequest> saved = layers_.saved();
  for (const std::uint64_t number : numbers)
    if (std::ranges::find(saved, number, &resource::SavedRequest::number) == saved.end()) {
      result.refusal = ReloadRefusal{ReloadRefusal::Cause::kNotFree,
                                     {"there is no saved request " + std::to_string(number)},
                                     {}};
      return result;
    }
  std::erase_if(saved, [&](const resource::SavedRequest& request) {
    return numbers.empty() || std::ranges::find(numbers, request.number) != numbers.end();
  });
  auto dropped = layers_.prepare(saved, numbers.empty());
  if (dropped) dropped = layers_.keep(std::move(saved));
  if (!dropped)
    result.refusal = ReloadRefusal{ReloadRefusal::Cause::kSetup, {dropped.error().message}, {}};
  return result;
}

AllocationResult Reloader::with_own_changes(const engine::Tenant& tenant, Changes changes) const {
  const TenantConfig* total = find_tenant(given_, tenant.name);
  if (total != nullptr)
    return resource::with_own_changes(adapter_.config, *total, changes,
                                      held_besides(adapter_.config));
  const std::string who = "tenant " + tenant.name;
  return resource::AllocationRefusal{
      resource::AllocationRefusal::Cause::kNotAllowed, who, {}, 0, 0, who + " is being removed"};
}

ReloadResult Reloader::put_changes(const AllocationResult& wanted, const Actor& by) {
  ReloadResult result;
  if (!wanted) {
    result.refusal = refusal_of(wanted);
    return result;
  }
  result = put(*wanted);
  if (!result) return result;
  const std::string whose = by.tenant.empty() ? "" : "by tenant " + by.tenant + ": ";
  for (const resource::Difference& difference : result.plan.differences) {
    spdlog::info("set: {}{}", whose, difference.text());
    adapter_.journal.add({.kind = "set", .text = whose + difference.text()});
  }
  return result;
}

ReloadResult Reloader::rollback(std::uint64_t number, const Actor& by) {
  const Revision* const revision = revisions_.find(number);
  if (revision == nullptr) {
    ReloadResult result;
    result.refusal = ReloadRefusal{ReloadRefusal::Cause::kNotFree,
                                   {"there is no revision " + std::to_string(number) +
                                    ", or it is not kept any more: softhcactl revisions"},
                                   {}};
    return result;
  }
  resource::Config wanted = adapter_.config;
  wanted.tenants = tenants_of(revision->in_force);
  ReloadResult result;
  if (const auto possible = resource::check_together(wanted); !possible) {
    result.refusal = ReloadRefusal{ReloadRefusal::Cause::kSetup, {possible.error().message}, {}};
    return result;
  }
  std::vector<TenantConfig> given = tenants_of(revision->given);
  resource::OwnChanges own = revision->own;
  result = put(wanted);
  if (!result) return result;
  given_.tenants = std::move(given);
  layers_.set_own(std::move(own));
  for (const std::string& text : result.plan.texts()) spdlog::info("rollback: {}", text);
  const std::string summary = "to revision " + std::to_string(number);
  spdlog::info("rollback: {}: {}", summary, result.plan.summary());
  adapter_.journal.add({.kind = "rollback", .text = summary});
  record(("rollback " + summary).c_str(), by, result);
  return result;
}

/// What changed nothing makes no revision.
void Reloader::record(const char* cause, const Actor& by, const ReloadResult& result) {
  if (!result.plan.empty())
    revisions_.add(cause, by, result.plan, adapter_.config, given_, layers_.own());
}

PlannedRequest Reloader::plan_change(Changes changes) const {
  return plan_request(
      resource::with_changes(adapter_.config, changes, held_besides(adapter_.config)));
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
    planned.result.refusal = refusal_of(wanted);
    return planned;
  }
  planned.result.plan = plan_reload(adapter_.config, *wanted);
  planned.result.refusal = check(*wanted, planned.result.plan);
  if (!planned.result) return planned;
  const resource::Held held = held_besides(adapter_.config);
  planned.before = resource::expected_shares(adapter_.config, held);
  planned.after = resource::expected_shares(*wanted, held);
  return planned;
}

}  // namespace softhca::control
