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

ReloadResult Reloader::change(Changes changes, const Actor& by) {
  ReloadResult result = put_changes(
      resource::with_changes(adapter_.config, changes, held_besides(adapter_.config)), by);
  if (!result) return result;
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
  if (result) record("set", self, result);
  return result;
}

AllocationResult Reloader::with_own_changes(const engine::Tenant& tenant, Changes changes) const {
  const TenantConfig* total = find_tenant(given_, tenant.name);
  if (total != nullptr)
    return resource::with_own_changes(adapter_.config, *total, changes,
                                      held_besides(adapter_.config));
  const std::string who = "tenant " + tenant.name;
  return resource::AllocationRefusal{resource::AllocationRefusal::Cause::kNotAllowed, who, {}, 0, 0,
                                     who + " is being removed"};
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
  result = put(wanted);
  if (!result) return result;
  given_.tenants = std::move(given);
  for (const std::string& text : result.plan.texts()) spdlog::info("rollback: {}", text);
  const std::string summary = "to revision " + std::to_string(number);
  spdlog::info("rollback: {}: {}", summary, result.plan.summary());
  adapter_.journal.add({.kind = "rollback", .text = summary});
  record(("rollback " + summary).c_str(), by, result);
  return result;
}

/// What changed nothing makes no revision.
void Reloader::record(const char* cause, const Actor& by, const ReloadResult& result) {
  if (!result.plan.empty()) revisions_.add(cause, by, result.plan, adapter_.config, given_);
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
