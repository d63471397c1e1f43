// The methods `set`, `reload` and `reload.plan` of the admin socket.
#include <limits>

#include "daemon/control/admin/admin_methods.hpp"
#include "daemon/control/reload/reload.hpp"

namespace softhca::control {
namespace {

using Cause = ReloadRefusal::Cause;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

RpcError error_of(const ReloadRefusal& refused) {
  const std::string message = joined(refused.lines) + "; nothing was changed";
  switch (refused.cause) {
    case Cause::kBadFile:
      return {RpcCode::kBadConfig, "the configuration file has mistakes; nothing was changed",
              Json{{"problems", refused.lines}}};
    case Cause::kNotLive:
      return {RpcCode::kNotLive,
              "not all of it can change while the daemon runs; nothing was changed",
              Json{{"reasons", refused.lines}}};
    case Cause::kNotFree:
      break;
    case Cause::kSetup:
      return {RpcCode::kInternalError, message, {}};
  }
  const resource::AllocationRefusal& allocation = refused.allocation;
  if (allocation.cause == resource::AllocationRefusal::Cause::kNoSuchThing)
    return {RpcCode::kNoSuchThing, message, {}};
  if (allocation.cause == resource::AllocationRefusal::Cause::kNotAllowed)
    return {RpcCode::kNotAllowed, message, {}};
  if (allocation.cause == resource::AllocationRefusal::Cause::kBadAmount)
    return invalid_params(message);
  return {RpcCode::kRefused, message,
          Json{{"resource", allocation.resource},
               {"asked", allocation.asked},
               {"free", allocation.free}}};
}

Json to_json(const resource::ReloadPlan& plan) {
  Json changes = Json::array();
  for (const resource::Difference& difference : plan.differences) {
    using Kind = resource::Difference::Kind;
    Json entry = {{"text", difference.text()},
                  {"kind", difference.kind == Kind::kAdded     ? "added"
                           : difference.kind == Kind::kRemoved ? "removed"
                                                               : "changed"},
                  {"section", difference.section}};
    if (!difference.name.empty()) entry["name"] = difference.name;
    if (difference.tvl) entry["tvl"] = *difference.tvl;
    if (!difference.key.empty()) {
      entry["key"] = difference.key;
      entry["from"] = difference.from;
      entry["to"] = difference.to;
    }
    if (!difference.is_live()) entry["refusal"] = difference.refusal;
    changes.push_back(std::move(entry));
  }
  return changes;
}

std::string known_resources() {
  std::string names;
  for (std::size_t i = 0; i < resource::kAllocations; ++i)
    names +=
        (i == 0 ? "" : ", ") + std::string(resource::name_of(static_cast<resource::Allocation>(i)));
  return names;
}

/// An amount: a number, or what the configuration has in its place.
Expected<std::uint64_t> amount_of(resource::Allocation allocation, const Json& value) {
  using resource::ValueForm;
  const std::string name = resource::name_of(allocation);
  switch (resource::form_of(allocation)) {
    case ValueForm::kNumber:
      if (value.is_number_unsigned()) return value.get<std::uint64_t>();
      return Error{name + ": amount must be a whole number, 0 or more"};
    case ValueForm::kYesNo:
      if (value.is_boolean()) return std::uint64_t{value.get<bool>()};
      return Error{name + ": amount must be true or false"};
    case ValueForm::kFactor:
      if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1e6)
        return static_cast<std::uint64_t>(value.get<double>() * 1000 + 0.5);
      return Error{name + ": amount must be a factor, as 1.5"};
    case ValueForm::kWord:
      break;
  }
  const auto words = resource::words_of(allocation);
  std::string known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value.is_string() && value.get<std::string>() == words[i]) return std::uint64_t{i};
    known += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  return Error{name + ": amount must be one of " + known};
}

/// {"tenant": T, "level": L, "tvl": I, "resource": "pcbs", "amount": N}. Without `level`: the
/// tenant's own; without `tvl`: of all TVLs. `self`: the tenant where none is named; empty: one
/// must be named.
Expected<resource::AllocationChange> change_of(const Json& entry, const std::string& self) {
  const auto name = entry.at("resource").get<std::string>();
  const auto allocation = resource::allocation_of(name);
  if (!allocation)
    return Error{"unknown resource \"" + name.substr(0, 64) + "\"; there are " + known_resources()};
  const auto amount = amount_of(*allocation, entry.at("amount"));
  if (!amount) return amount.error();
  resource::AllocationChange change{.tenant = self, .allocation = *allocation, .amount = *amount};
  if (self.empty() || entry.contains("tenant"))
    change.tenant = entry.at("tenant").get<std::string>();
  if (entry.contains("level")) change.level = entry.at("level").get<std::string>();
  if (entry.contains("level") && change.level.empty()) return Error{"level is empty"};
  if (!entry.contains("tvl")) return change;
  if (!entry.at("tvl").is_number_unsigned()) return Error{"tvl must be a whole number, 0 or more"};
  change.tvl = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      entry.at("tvl").get<std::uint64_t>(), std::numeric_limits<std::uint32_t>::max()));
  return change;
}

/// One change, or a list of them under "changes".
Expected<std::vector<resource::AllocationChange>> changes_of(const Json& params,
                                                             const std::string& self) {
  const Json list = params.is_object() && params.contains("changes") ? params.at("changes")
                                                                     : Json::array({params});
  if (!list.is_array() || list.empty()) return Error{"changes must be a list"};
  std::vector<resource::AllocationChange> changes;
  for (const Json& entry : list) {
    const auto change = change_of(entry, self);
    if (!change) return change.error();
    changes.push_back(*change);
  }
  return changes;
}

Json changes_made(const ReloadResult& result) {
  Json out = {{"changes", to_json(result.plan)}};
  if (!result.kept.empty()) out["kept"] = result.kept;
  return out;
}

}  // namespace

void add_reload_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add("reload", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.reload();
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
  methods.add("reload.plan", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.plan();
    if (!result && result.refusal->cause == Cause::kBadFile) return error_of(*result.refusal);
    Json out = {{"changes", to_json(result.plan)}, {"accepted", static_cast<bool>(result)}};
    if (!result) out["refusals"] = result.refusal->lines;
    return out;
  });
  methods.add("set", [&reloader](const Json& params) -> RpcResult {
    const auto changes = changes_of(params, {});
    if (!changes) return invalid_params(changes.error().message);
    const ReloadResult result = reloader.change(*changes);
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
}

void add_own_methods(AdminMethods& methods, Reloader& reloader, const engine::Tenant& tenant) {
  methods.add("set", [&reloader, &tenant](const Json& params) -> RpcResult {
    const auto changes = changes_of(params, tenant.name);
    if (!changes) return invalid_params(changes.error().message);
    const ReloadResult result = reloader.change_own(tenant, *changes);
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
}

}  // namespace softhca::control
