// The methods `set`, `reload` and `reload.plan` of the admin socket.
#include <limits>

#include "daemon/control/admin_methods.hpp"
#include "daemon/control/reload.hpp"

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
      return {RpcCode::kBadConfig, message, Json{{"problems", refused.lines}}};
    case Cause::kNotLive:
      return {RpcCode::kNotLive, message, Json{{"reasons", refused.lines}}};
    case Cause::kNotFree:
      break;
    case Cause::kSetup:
      return {RpcCode::kInternalError, message, {}};
  }
  const resource::AllocationRefusal& allocation = refused.allocation;
  if (allocation.cause == resource::AllocationRefusal::Cause::kNoSuchThing)
    return {RpcCode::kNoSuchThing, message, {}};
  if (allocation.cause == resource::AllocationRefusal::Cause::kBadAmount)
    return invalid_params(message);
  return {RpcCode::kRefused, message,
          Json{{"resource", allocation.resource},
               {"asked", allocation.asked},
               {"free", allocation.free}}};
}

Json shown(const resource::ReloadPlan& plan) {
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

/// {"tenant": T, "resource": "pcbs", "amount": N, "tvl": I (of a TVL; none: all)}
Expected<resource::AllocationChange> change_of(const Json& entry) {
  if (entry.contains("level")) return Error{"allocations of a level cannot be set so"};
  const auto name = entry.at("resource").get<std::string>();
  const auto allocation = resource::allocation_of(name);
  if (!allocation)
    return Error{
        "unknown resource \"" + name +
        "\"; there are vcbs, pcbs, tvls, execution_credits, completion_credits, kick_list"};
  const auto number = [&](const char* key) -> Expected<std::uint64_t> {
    if (!entry.at(key).is_number_unsigned())
      return Error{std::string(key) + " must be a whole number, 0 or more"};
    return entry.at(key).get<std::uint64_t>();
  };
  const auto amount = number("amount");
  if (!amount) return amount.error();
  resource::AllocationChange change{.tenant = entry.at("tenant").get<std::string>(),
                                    .allocation = *allocation,
                                    .amount = *amount};
  if (!entry.contains("tvl")) return change;
  const auto tvl = number("tvl");
  if (!tvl) return tvl.error();
  change.tvl = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(*tvl, std::numeric_limits<std::uint32_t>::max()));
  return change;
}

}  // namespace

void add_reload_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add("reload", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.reload();
    if (!result) return error_of(*result.refusal);
    return Json{{"changes", shown(result.plan)}};
  });
  methods.add("reload.plan", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.plan();
    if (!result && result.refusal->cause == Cause::kBadFile) return error_of(*result.refusal);
    Json out = {{"changes", shown(result.plan)}, {"accepted", static_cast<bool>(result)}};
    if (!result) out["refusals"] = result.refusal->lines;
    return out;
  });
  methods.add("set", [&reloader](const Json& params) -> RpcResult {
    // One change, or a list of them under "changes".
    std::vector<resource::AllocationChange> changes;
    const Json list = params.contains("changes") ? params.at("changes") : Json::array({params});
    if (!list.is_array() || list.empty()) return invalid_params("changes must be a list");
    for (const Json& entry : list) {
      const auto change = change_of(entry);
      if (!change) return invalid_params(change.error().message);
      changes.push_back(*change);
    }
    const ReloadResult result = reloader.change(changes);
    if (!result) return error_of(*result.refusal);
    return Json{{"changes", shown(result.plan)}};
  });
}

}  // namespace softhca::control
