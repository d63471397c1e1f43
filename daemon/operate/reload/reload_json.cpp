// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/reload_json.hpp"

#include <algorithm>
#include <limits>

#include "daemon/configuration/schema/level_rules.hpp"
#include "daemon/configuration/schema/removed_keys.hpp"

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
      return {RpcCode::kNotLive, "some changes need a restart of the daemon; nothing was changed",
              Json{{"reasons", refused.lines}}};
    case Cause::kNotFree:
      break;
    case Cause::kSetup:
      return {RpcCode::kInternalError, message, {}};
  }
  const configuration::AllocationRefusal& allocation = refused.allocation;
  if (allocation.cause == configuration::AllocationRefusal::Cause::kNoSuchThing)
    return {RpcCode::kNoSuchThing, message, {}};
  if (allocation.cause == configuration::AllocationRefusal::Cause::kNotAllowed)
    return {RpcCode::kNotAllowed, message, {}};
  if (allocation.cause == configuration::AllocationRefusal::Cause::kBadAmount)
    return invalid_params(message);
  return {RpcCode::kRefused, message,
          Json{{"resource", allocation.resource},
               {"asked", allocation.asked},
               {"free", allocation.free}}};
}

Json to_json(const std::vector<configuration::Difference>& differences) {
  Json changes = Json::array();
  for (const configuration::Difference& difference : differences) {
    using Kind = configuration::Difference::Kind;
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
  for (std::size_t i = 0; i < configuration::kLiveSettings; ++i)
    names += (i == 0 ? "" : ", ") +
             std::string(configuration::name_of(static_cast<configuration::LiveSetting>(i)));
  return names;
}

/// Reads an amount: a number, or the value that the configuration has in its place.
Expected<std::uint64_t> amount_of(configuration::LiveSetting setting, const Json& value) {
  using configuration::ValueForm;
  const std::string name = configuration::name_of(setting);
  switch (configuration::form_of(setting)) {
    case ValueForm::kNumber:
      if (value.is_number_unsigned()) return value.get<std::uint64_t>();
      return Error{name + ": amount must be a whole number, 0 or more"};
    case ValueForm::kYesNo:
      if (value.is_boolean()) return std::uint64_t{value.get<bool>()};
      return Error{name + ": amount must be true or false"};
    case ValueForm::kFactor:
      if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1e6)
        return static_cast<std::uint64_t>(value.get<double>() * 1000 + 0.5);
      return Error{name + ": amount must be a factor, such as 1.5"};
    case ValueForm::kShare:
      if (value.is_string())
        if (const auto share = configuration::parse_share(value.get<std::string>()))
          return std::uint64_t{share->tenths};
      return Error{name + ": amount " + configuration::kShareForm};
    case ValueForm::kWord:
      break;
  }
  const auto words = configuration::words_of(setting);
  std::string known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value.is_string() && value.get<std::string>() == words[i]) return std::uint64_t{i};
    known += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  return Error{name + ": amount must be one of " + known};
}

/// Reads a change. Without `level`: of the tenant itself. Without `tvl`: of all TVLs.
Expected<configuration::AllocationChange> change_of(const Json& entry, const std::string& self) {
  const auto name = entry.at("resource").get<std::string>();
  const auto setting = configuration::live_setting_of(name);
  if (!setting) {
    if (const auto removal = configuration::removal_of("tenant", name))
      return Error{name + " " + *removal};
    return Error{"unknown resource \"" + name.substr(0, 64) + "\"; known: " + known_resources()};
  }
  const auto amount = amount_of(*setting, entry.at("amount"));
  if (!amount) return amount.error();
  configuration::AllocationChange change{.tenant = self, .setting = *setting, .amount = *amount};
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

Json to_json(const configuration::AllocationChange& change) {
  using configuration::ValueForm;
  Json out = {{"tenant", change.tenant}, {"resource", configuration::name_of(change.setting)}};
  if (!change.level.empty()) out["level"] = change.level;
  if (change.tvl) out["tvl"] = *change.tvl;
  Json& amount = out["amount"];
  switch (configuration::form_of(change.setting)) {
    case ValueForm::kNumber:
      amount = change.amount;
      break;
    case ValueForm::kYesNo:
      amount = change.amount != 0;
      break;
    case ValueForm::kFactor:
      amount = static_cast<double>(change.amount) / 1000;
      break;
    case ValueForm::kShare:
      amount =
          configuration::to_text(configuration::Share{static_cast<std::uint32_t>(change.amount)});
      break;
    case ValueForm::kWord:
      amount = configuration::words_of(change.setting)[change.amount];
  }
  return out;
}

Json to_json(const configuration::SavedRequest& request) {
  Json changes = Json::array();
  for (const configuration::AllocationChange& change : request.changes)
    changes.push_back(to_json(change));
  return {{"number", request.number}, {"changes", std::move(changes)}};
}

Expected<std::vector<configuration::AllocationChange>> changes_of(const Json& params,
                                                                  const std::string& self) {
  const Json list = params.is_object() && params.contains("changes") ? params.at("changes")
                                                                     : Json::array({params});
  if (!list.is_array() || list.empty())
    return Error{"changes must be a list with at least one change"};
  std::vector<configuration::AllocationChange> changes;
  for (const Json& entry : list) {
    const auto change = change_of(entry, self);
    if (!change) return change.error();
    changes.push_back(*change);
  }
  return changes;
}

Json to_json(const configuration::TenantRequest& request) {
  Json addresses = Json::array();
  for (const Gid& gid : request.addresses) addresses.push_back(configuration::to_string(gid));
  Json out = {{"name", request.name},
              {"template", request.template_name},
              {"addresses", std::move(addresses)}};
  if (request.owner) out["owner"] = *request.owner;
  if (request.group) out["group"] = *request.group;
  if (request.mode) out["mode"] = *request.mode;
  if (request.guest_memory) out["guest_memory"] = *request.guest_memory;
  if (request.share) out["share"] = configuration::to_text(*request.share);
  if (request.workload)
    out["class"] = configuration::kWorkloadWords[static_cast<std::size_t>(*request.workload)];
  return out;
}

Expected<configuration::TenantRequest> tenant_request_of(const Json& params) {
  configuration::TenantRequest request{.name = params.at("name").get<std::string>(),
                                       .template_name = params.at("template").get<std::string>()};
  if (params.contains("addresses"))
    for (const Json& text : params.at("addresses")) {
      const auto gid = configuration::parse_address(text.get<std::string>());
      if (!gid || !gid->is_unicast())
        return Error{
            "addresses: each must be the address of a host, such as \"10.0.0.1\" or \"fe80::1\""};
      request.addresses.push_back(*gid);
    }
  if (params.contains("owner")) request.owner = params.at("owner").get<std::string>();
  if (params.contains("group")) request.group = params.at("group").get<std::string>();
  if (params.contains("guest_memory"))
    request.guest_memory = params.at("guest_memory").get<std::uint64_t>();
  using configuration::LiveSetting;
  if (params.contains("share")) {
    const auto share = amount_of(LiveSetting::kShare, params.at("share"));
    if (!share) return share.error();
    request.share = configuration::Share{static_cast<std::uint32_t>(*share)};
  }
  if (params.contains("class")) {
    const auto word = amount_of(LiveSetting::kClass, params.at("class"));
    if (!word) return word.error();
    request.workload = static_cast<configuration::Workload>(*word);
  }
  if (!params.contains("mode")) return request;
  if (!params.at("mode").is_number_unsigned() || params.at("mode").get<std::uint64_t>() > 0777)
    return Error{"mode must be file permissions, 0 to 0777 (octal)"};
  request.mode = params.at("mode").get<std::uint32_t>();
  return request;
}

namespace {

constexpr unsigned kMostDscp = 63;

Expected<std::optional<std::uint8_t>> dscp_of(const Json& value) {
  if (value.is_null()) return std::optional<std::uint8_t>();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= kMostDscp)
    return std::optional(value.get<std::uint8_t>());
  return Error{"dscp must be a whole number from 0 to 63, or null for the tenant's"};
}

constexpr std::uint8_t kMostTrafficClass = 255;

/// Reads a list of numbers from 0 to `most`, each once.
Expected<std::vector<std::uint8_t>> bytes_of(const std::string& key, const Json& value,
                                             std::uint8_t most) {
  const Error wrong{key + " must be a list of whole numbers from 0 to " + std::to_string(most) +
                    ", each once"};
  if (!value.is_array() || value.size() > most + std::size_t{1}) return wrong;
  std::vector<std::uint8_t> bytes;
  for (const Json& entry : value) {
    if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() > most ||
        std::ranges::find(bytes, entry.get<std::uint8_t>()) != bytes.end())
      return wrong;
    bytes.push_back(entry.get<std::uint8_t>());
  }
  return bytes;
}

/// Adds a key to an edit. A key that is not one of those below is a resource.
std::optional<Error> add_to(configuration::LevelEdit& edit, const std::string& tenant,
                            const std::string& key, const Json& value) {
  if (key == "level") return std::nullopt;
  if (key == "default") {
    edit.is_default = value.get<bool>();
  } else if (key == "cgroups") {
    edit.cgroups = value.get<std::vector<std::string>>();
  } else if (key == "service_levels" || key == "traffic_classes") {
    const bool is_level = key == "service_levels";
    const auto bytes =
        bytes_of(key, value, is_level ? configuration::kMostServiceLevel : kMostTrafficClass);
    if (!bytes) return bytes.error();
    (is_level ? edit.service_levels : edit.traffic_classes) = *bytes;
  } else if (key == "dscp") {
    const auto dscp = dscp_of(value);
    if (!dscp) return dscp.error();
    edit.dscp = *dscp;
  } else {
    const auto change =
        change_of({{"resource", key}, {"amount", value}, {"level", edit.level}}, tenant);
    if (!change) return change.error();
    edit.changes.push_back(*change);
  }
  return std::nullopt;
}

}  // namespace

Expected<std::vector<configuration::LevelEdit>> level_edits_of(const Json& params,
                                                               const std::string& tenant) {
  const Json list =
      params.is_object() && params.contains("levels") ? params.at("levels") : Json::array({params});
  if (!list.is_array() || list.empty())
    return Error{"levels must be a list with at least one level"};
  std::vector<configuration::LevelEdit> edits;
  for (const Json& entry : list) {
    configuration::LevelEdit& edit = edits.emplace_back();
    edit.level = entry.at("level").get<std::string>();
    for (const auto& [key, value] : entry.items())
      if (auto wrong = add_to(edit, tenant, key, value)) return *wrong;
  }
  return edits;
}

}  // namespace softhca::control
