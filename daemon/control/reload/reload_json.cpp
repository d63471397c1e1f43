#include "daemon/control/reload/reload_json.hpp"

#include <algorithm>
#include <limits>

namespace softhca::control {
namespace {

using Cause = ReloadRefusal::Cause;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

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

Json to_json(const std::vector<resource::Difference>& differences) {
  Json changes = Json::array();
  for (const resource::Difference& difference : differences) {
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

Json changes_made(const ReloadResult& result) {
  Json out = {{"changes", to_json(result.plan.differences)}};
  if (!result.kept.empty()) out["kept"] = result.kept;
  return out;
}

namespace {

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

/// Without `level`: the tenant's own; without `tvl`: of all TVLs.
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

}  // namespace

Json to_json(const resource::AllocationChange& change) {
  using resource::ValueForm;
  Json out = {{"tenant", change.tenant}, {"resource", resource::name_of(change.allocation)}};
  if (!change.level.empty()) out["level"] = change.level;
  if (change.tvl) out["tvl"] = *change.tvl;
  Json& amount = out["amount"];
  switch (resource::form_of(change.allocation)) {
    case ValueForm::kNumber:
      amount = change.amount;
      break;
    case ValueForm::kYesNo:
      amount = change.amount != 0;
      break;
    case ValueForm::kFactor:
      amount = static_cast<double>(change.amount) / 1000;
      break;
    case ValueForm::kWord:
      amount = resource::words_of(change.allocation)[change.amount];
  }
  return out;
}

Json to_json(const resource::SavedRequest& request) {
  Json changes = Json::array();
  for (const resource::AllocationChange& change : request.changes)
    changes.push_back(to_json(change));
  return {{"number", request.number}, {"changes", std::move(changes)}};
}

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

}  // namespace softhca::control
