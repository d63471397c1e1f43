// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/config_json.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::control {
namespace {

using configuration::GivenAmounts;
using configuration::InterfaceAddress;
using configuration::Key;
using configuration::Schema;
using configuration::schema_of;
using configuration::TenantConfig;
using configuration::Type;

template <class T>
const T& value_at(const void* value) {
  return *static_cast<const T*>(value);
}

Json to_json(const Schema& schema, const void* section);
void read(const Json& json, const Schema& schema, void* section);

std::string text_of(const Gid& gid) { return configuration::to_string(gid); }
std::string text_of(const InterfaceAddress& address) {
  return text_of(address.gid) + "/" + std::to_string(address.prefix);
}
std::string text_of(const AddressPrefix& prefix) {
  return text_of(InterfaceAddress{prefix.address, prefix.length});
}

/// Returns the value of an optional. Throws if there is none.
template <class T>
T must(const std::optional<T>& value, const std::string& text) {
  if (!value) throw std::invalid_argument("\"" + text + "\" cannot be read");
  return *value;
}

void read_text(const std::string& text, Gid& gid) {
  gid = must(configuration::parse_address(text), text);
}
void read_text(const std::string& text, InterfaceAddress& address) {
  address = must(configuration::parse_interface_address(text), text);
}
void read_text(const std::string& text, AddressPrefix& prefix) {
  InterfaceAddress address;
  read_text(text, address);
  prefix = {address.gid, address.prefix};
}

template <class T>
Json texts_of(const void* value) {
  Json texts = Json::array();
  for (const T& each : value_at<std::vector<T>>(value)) texts.push_back(text_of(each));
  return texts;
}

template <class T>
void read_texts(const Json& texts, void* value) {
  std::vector<T> all;
  for (const Json& text : texts) read_text(text.get<std::string>(), all.emplace_back());
  *static_cast<std::vector<T>*>(value) = std::move(all);
}

/// `value`: of the key.
Json to_json(const Key& key, const void* value) {
  switch (key.at.type) {
    case Type::kBoolean:
      return key.at.amount(value) != 0;
    case Type::kInteger:
    case Type::kShare:
    case Type::kSeconds:
      return key.at.amount(value);
    case Type::kWord:
      return key.words[key.at.amount(value)];
    case Type::kFactor:
      return value_at<double>(value);
    case Type::kText:
      return value_at<std::string>(value);
    case Type::kAddress:
      return text_of(value_at<Gid>(value));
    case Type::kAddresses:
      return texts_of<Gid>(value);
    case Type::kSubnets:
      return texts_of<InterfaceAddress>(value);
    case Type::kPrefixes:
      return texts_of<AddressPrefix>(value);
    case Type::kNames:
      return value_at<std::vector<std::string>>(value);
    case Type::kNumbers:
      return value_at<std::vector<std::uint8_t>>(value);
    case Type::kImportances:
      return value_at<configuration::Importances>(value);
    case Type::kTable:
      return to_json(key.table(), value);
    case Type::kEveryImportance:
    case Type::kTvls:
      break;  // other keys have these
  }
  return nullptr;
}

/// `value`: of the key.
void read(const Json& json, const Key& key, void* value) {
  switch (key.at.type) {
    case Type::kBoolean:
      return key.at.set(value, json.get<bool>() ? 1 : 0);
    case Type::kInteger:
    case Type::kShare:
    case Type::kSeconds:
      return key.at.set(value, json.get<std::uint64_t>());
    case Type::kWord: {
      const auto word = json.get<std::string>();
      const auto found = std::find(key.words.begin(), key.words.end(), word);
      if (found == key.words.end()) throw std::invalid_argument("\"" + word + "\" is unknown");
      return key.at.set(value, static_cast<std::uint64_t>(found - key.words.begin()));
    }
    case Type::kFactor:
      *static_cast<double*>(value) = json.get<double>();
      return;
    case Type::kText:
      *static_cast<std::string*>(value) = json.get<std::string>();
      return;
    case Type::kAddress:
      return read_text(json.get<std::string>(), *static_cast<Gid*>(value));
    case Type::kAddresses:
      return read_texts<Gid>(json, value);
    case Type::kSubnets:
      return read_texts<InterfaceAddress>(json, value);
    case Type::kPrefixes:
      return read_texts<AddressPrefix>(json, value);
    case Type::kNames:
      *static_cast<std::vector<std::string>*>(value) = json.get<std::vector<std::string>>();
      return;
    case Type::kNumbers:
      *static_cast<std::vector<std::uint8_t>*>(value) = json.get<std::vector<std::uint8_t>>();
      return;
    case Type::kImportances:
      *static_cast<configuration::Importances*>(value) = json.get<configuration::Importances>();
      return;
    case Type::kTable:
      return read(json, key.table(), value);
    case Type::kEveryImportance:
    case Type::kTvls:
      return;
  }
}

/// True if the value of the key is that of another one, or is kept beside the keys.
bool is_apart(const Key& key) { return key.is_alias || key.at.type == Type::kTvls; }

Json to_json(const Schema& schema, const void* section) {
  Json out = Json::object();
  for (const Key& key : schema.keys)
    if (const void* value = key.at.look(section); value != nullptr && !is_apart(key))
      out[key.name] = to_json(key, value);
  return out;
}

void read(const Json& json, const Schema& schema, void* section) {
  for (const Key& key : schema.keys)
    if (json.contains(key.name) && !is_apart(key))
      read(json.at(key.name), key, key.at.reach(section));
}

template <class S>
Json keys_of(const S& section) {
  return to_json(schema_of<S>(), &section);
}

template <class S>
void read_keys(const Json& json, S& section) {
  read(json, schema_of<S>(), &section);
}

template <class T, class ToJson>
Json list_of(const std::vector<T>& all, ToJson&& to_json) {
  Json list = Json::array();
  for (const T& each : all) list.push_back(to_json(each));
  return list;
}

template <class T>
void read_all(const Json& list, std::vector<T>& all) {
  for (const Json& each : list) read_keys(each, all.emplace_back());
}

Json to_json(const GivenAmounts& given) {
  Json names = Json::array();
  for (std::size_t i = 0; i < configuration::kFollowed; ++i)
    if (given.has(static_cast<configuration::Followed>(i)))
      names.push_back(configuration::kFollowedKeys[i]);
  configuration::for_each_kind([&](configuration::Kind kind) {
    if (given.has(kind)) names.push_back(configuration::name_of(kind));
  });
  return names;
}

GivenAmounts given_of(const Json& names) {
  GivenAmounts given;
  for (const Json& name : names) given.add(name.get<std::string>());
  return given;
}

Json to_json(const configuration::TvlConfig& tvl) {
  return {{"keys", keys_of(tvl)}, {"given", to_json(tvl.given)}};
}

/// The keys of a peer in a file that may have changed.
Json to_json(const PeerConfig& peer) {
  Json secrets = Json::array();
  for (const PeerSecret& secret : peer.secrets) {
    Json bytes = Json::array();
    for (const std::byte byte : secret) bytes.push_back(std::to_integer<unsigned>(byte));
    secrets.push_back(std::move(bytes));
  }
  return {{"keys", keys_of(peer)}, {"secrets", std::move(secrets)}};
}

PeerConfig peer_of(const Json& json) {
  PeerConfig peer;
  read_keys(json.at("keys"), peer);
  for (const Json& bytes : json.at("secrets")) {
    const auto values = bytes.get<std::vector<std::uint8_t>>();
    PeerSecret& secret = peer.secrets.emplace_back();
    if (values.size() != secret.size()) throw std::invalid_argument("a key of the wrong length");
    std::memcpy(secret.data(), values.data(), values.size());
  }
  return peer;
}

}  // namespace

Json to_json(const configuration::LevelRules& rules) {
  return {{"cgroups", rules.cgroups},
          {"service_levels", rules.service_levels},
          {"traffic_classes", rules.traffic_classes}};
}

configuration::LevelRules level_rules_of(const Json& json) {
  return {.cgroups = json.at("cgroups").get<std::vector<std::string>>(),
          .service_levels = json.at("service_levels").get<std::vector<std::uint8_t>>(),
          .traffic_classes = json.at("traffic_classes").get<std::vector<std::uint8_t>>()};
}

Json to_json(const configuration::LevelConfig& level) {
  return {{"keys", keys_of(level)}, {"own", level.own}, {"own_rules", to_json(level.own_rules)}};
}

configuration::LevelConfig level_config_of(const Json& json) {
  configuration::LevelConfig level;
  read_keys(json.at("keys"), level);
  level.own = json.at("own").get<bool>();
  level.own_rules = level_rules_of(json.at("own_rules"));
  return level;
}

Json to_json(const TenantConfig& tenant) {
  return {{"keys", keys_of(tenant)},
          {"given", to_json(tenant.given)},
          {"devices", list_of(tenant.devices, keys_of<configuration::TenantDevice>)},
          {"tvls", list_of(tenant.tvls, [](const auto& tvl) { return to_json(tvl); })},
          {"levels", list_of(tenant.levels, [](const auto& level) { return to_json(level); })},
          {"srq_rules", list_of(tenant.srq_rules, keys_of<SrqRule>)}};
}

TenantConfig tenant_config_of(const Json& json) {
  TenantConfig tenant;
  read_keys(json.at("keys"), tenant);
  tenant.given = given_of(json.at("given"));
  read_all(json.at("devices"), tenant.devices);
  for (const Json& each : json.at("tvls")) {
    configuration::TvlConfig& tvl = tenant.tvls.emplace_back();
    read_keys(each.at("keys"), tvl);
    tvl.given = given_of(each.at("given"));
  }
  for (const Json& each : json.at("levels")) tenant.levels.push_back(level_config_of(each));
  read_all(json.at("srq_rules"), tenant.srq_rules);
  return tenant;
}

Json to_json(const configuration::Config& config) {
  const auto tenant_json = [](const TenantConfig& tenant) { return to_json(tenant); };
  Json out = {{"metrics_chosen", config.metrics.chosen},
              {"ports", list_of(config.ports, keys_of<configuration::PortConfig>)},
              {"peers", list_of(config.peers, [](const auto& peer) { return to_json(peer); })},
              {"tenants", list_of(config.tenants, tenant_json)},
              {"templates", list_of(config.templates, tenant_json)}};
  configuration::for_each_section(
      [&](const char* name, auto member) { out["sections"][name] = keys_of(config.*member); });
  return out;
}

configuration::Config config_of(const Json& json) {
  configuration::Config config;
  configuration::for_each_section([&](const char* name, auto member) {
    if (json.at("sections").contains(name)) read_keys(json.at("sections").at(name), config.*member);
  });
  config.metrics.chosen = json.at("metrics_chosen").get<bool>();
  read_all(json.at("ports"), config.ports);
  for (const Json& each : json.at("peers")) config.peers.push_back(peer_of(each));
  for (const Json& each : json.at("tenants")) config.tenants.push_back(tenant_config_of(each));
  for (const Json& each : json.at("templates")) config.templates.push_back(tenant_config_of(each));
  return config;
}

}  // namespace softhca::control
