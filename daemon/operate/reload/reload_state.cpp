// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/reload_state.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/operate/reload/config_json.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {
namespace {

using configuration::AllocationChange;
using configuration::AllocationRefusal;
using configuration::Config;
using configuration::LevelConfig;
using configuration::SubAllocation;
using configuration::TenantConfig;

constexpr auto kKind = records::Kind::kSettings;
constexpr const char* kName = "configuration";

Json to_json(const AllocationRefusal& refusal) {
  return {{"cause", static_cast<unsigned>(refusal.cause)},
          {"who", refusal.who},
          {"resource", refusal.resource},
          {"asked", refusal.asked},
          {"free", refusal.free},
          {"message", refusal.message}};
}

AllocationRefusal refusal_of(const Json& json) {
  return {.cause = static_cast<AllocationRefusal::Cause>(json.at("cause").get<unsigned>()),
          .who = json.at("who").get<std::string>(),
          .resource = json.at("resource").get<std::string>(),
          .asked = json.at("asked").get<std::uint64_t>(),
          .free = json.at("free").get<std::uint64_t>(),
          .message = json.at("message").get<std::string>()};
}

Json to_json(const SubAllocation& division) {
  Json out = {{"levels", Json::array()}, {"rules", Json::object()}, {"changes", Json::array()}};
  for (const LevelConfig& level : division.levels) out["levels"].push_back(control::to_json(level));
  for (const auto& [level, rules] : division.rules) out["rules"][level] = control::to_json(rules);
  for (const AllocationChange& change : division.changes)
    out["changes"].push_back(control::to_json(change));
  return out;
}

/// Returns the value. Throws if there is an error.
template <class T>
T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().message);
  return std::move(*value);
}

SubAllocation division_of(const Json& json) {
  SubAllocation division;
  for (const Json& level : json.at("levels")) division.levels.push_back(level_config_of(level));
  for (const auto& [level, rules] : json.at("rules").items())
    division.rules[level] = level_rules_of(rules);
  if (!json.at("changes").empty()) division.changes = must(changes_of(json, {}));
  return division;
}

Json to_json(const ReloadState::FormerAddress& former) {
  Json out = {{"tenant", former.tenant},
              {"device", former.device},
              {"address", configuration::to_string(former.address.gid)},
              {"prefix", former.address.prefix}};
  if (former.port) out["port"] = *former.port;
  return out;
}

ReloadState::FormerAddress former_of(const Json& json) {
  ReloadState::FormerAddress former;
  former.tenant = json.at("tenant").get<std::string>();
  former.device = json.at("device").get<std::uint8_t>();
  if (json.contains("port")) former.port = json.at("port").get<std::uint8_t>();
  const auto text = json.at("address").get<std::string>();
  const auto gid = configuration::parse_address(text);
  if (!gid) throw std::runtime_error("\"" + text + "\" is not an address");
  former.address = {*gid, json.at("prefix").get<std::uint8_t>()};
  return former;
}

Json to_json(const DaemonStart& started) {
  const auto ns = [](auto time) {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  };
  return {{"time_ns", ns(started.time)}, {"steady_ns", ns(started.steady)}};
}

DaemonStart start_of(const Json& json) {
  const auto ns = [&](const char* name) {
    return std::chrono::nanoseconds(json.at(name).get<std::int64_t>());
  };
  return {.time = std::chrono::system_clock::time_point(ns("time_ns")),
          .steady = std::chrono::steady_clock::time_point(ns("steady_ns"))};
}

Json to_json(const std::vector<TenantConfig>& tenants) {
  Json list = Json::array();
  for (const TenantConfig& tenant : tenants) list.push_back(control::to_json(tenant));
  return list;
}

std::vector<TenantConfig> tenant_configs_of(const Json& list) {
  std::vector<TenantConfig> tenants;
  for (const Json& each : list) tenants.push_back(tenant_config_of(each));
  return tenants;
}

Json to_json(const ReloadState& state) {
  Json out = {{"file", control::to_json(state.file)},
              {"in_force", control::to_json(state.in_force)},
              {"given", to_json(state.given)},
              {"on_demand", Json::array()},
              {"own", Json::object()},
              {"left_out", Json::array()},
              {"absent", Json::object()},
              {"leaving", to_json(state.leaving)},
              {"leaving_levels", Json::array()},
              {"former", Json::array()},
              {"version", state.version},
              {"started", to_json(state.started)},
              {"identity", state.identity}};
  for (const auto& tenant : state.on_demand)
    out["on_demand"].push_back(
        {{"request", control::to_json(tenant.request)}, {"saved", tenant.saved}});
  for (const auto& [tenant, division] : state.own) out["own"][tenant] = to_json(*division);
  for (const auto& [number, why] : state.left_out)
    out["left_out"].push_back({{"number", number}, {"why", to_json(why)}});
  for (const auto& [tenant, why] : state.absent) out["absent"][tenant] = to_json(why);
  for (const auto& leaving : state.leaving_levels)
    out["leaving_levels"].push_back(
        {{"tenant", leaving.tenant}, {"level", control::to_json(leaving.level)}});
  for (const auto& former : state.former) out["former"].push_back(to_json(former));
  return out;
}

/// May throw what reading a Json of the wrong shape throws, and std::runtime_error.
ReloadState state_of(const Json& json) {
  ReloadState state;
  state.file = config_of(json.at("file"));
  state.in_force = config_of(json.at("in_force"));
  state.given = tenant_configs_of(json.at("given"));
  for (const Json& each : json.at("on_demand"))
    state.on_demand.push_back(
        {must(tenant_request_of(each.at("request"))), each.at("saved").get<bool>()});
  for (const auto& [tenant, division] : json.at("own").items())
    state.own[tenant] = std::make_shared<const SubAllocation>(division_of(division));
  for (const Json& each : json.at("left_out"))
    state.left_out[each.at("number").get<std::uint64_t>()] = refusal_of(each.at("why"));
  for (const auto& [tenant, why] : json.at("absent").items())
    state.absent[tenant] = refusal_of(why);
  state.leaving = tenant_configs_of(json.at("leaving"));
  for (const Json& each : json.at("leaving_levels"))
    state.leaving_levels.push_back(
        {each.at("tenant").get<std::string>(), level_config_of(each.at("level"))});
  for (const Json& each : json.at("former")) state.former.push_back(former_of(each));
  state.version = json.value("version", "");  // not of an earlier release
  if (json.contains("started")) state.started = start_of(json["started"]);
  state.identity = json.value("identity", std::uint64_t{0});
  return state;
}

TenantConfig* find(Config& config, const std::string& name) {
  const auto found = std::ranges::find(config.tenants, name, &TenantConfig::name);
  return found != config.tenants.end() ? &*found : nullptr;
}

/// Adds a level with TVLs of its own. Levels that the tenant has made stay behind it.
void add_level(TenantConfig& tenant, const LevelConfig& level) {
  const auto at = std::ranges::find(tenant.levels, true, &LevelConfig::own);
  std::size_t tvls = 0;
  for (auto before = tenant.levels.begin(); before != at; ++before) tvls += before->tvls;
  const configuration::TvlConfig tvl = tenant.tvls.back();
  tenant.tvls.insert(tenant.tvls.begin() + static_cast<std::ptrdiff_t>(tvls), level.tvls, tvl);
  const auto added = tenant.levels.insert(at, level);
  added->is_default = tenant.levels.size() == 1;
}

void add_address(Config& config, TenantConfig& tenant, const ReloadState::FormerAddress& former) {
  if (former.port && *former.port < config.ports.size()) {
    auto& addresses = config.ports[*former.port].addresses;
    if (std::ranges::find(addresses, former.address.gid, &configuration::InterfaceAddress::gid) ==
        addresses.end())
      addresses.push_back(former.address);
  }
  if (former.device >= tenant.devices.size()) return tenant.addresses.push_back(former.address.gid);
  tenant.devices[former.device].addresses.push_back(former.address.gid);
  tenant.addresses.clear();
  for (const configuration::TenantDevice& device : tenant.devices)
    tenant.addresses.insert(tenant.addresses.end(), device.addresses.begin(),
                            device.addresses.end());
}

Outcome write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return system_error("the configuration");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return {};
}

Expected<std::string> read_all(int fd) {
  std::string text;
  char part[64 << 10];
  for (;;) {
    const ssize_t n = ::pread(fd, part, sizeof part, static_cast<off_t>(text.size()));
    if (n < 0 && errno != EINTR) return system_error("the configuration");
    if (n == 0) return text;
    if (n > 0) text.append(part, static_cast<std::size_t>(n));
  }
}

}  // namespace

Config with_leavers(const ReloadState& state) {
  Config config = state.in_force;
  config.tenants.insert(config.tenants.end(), state.leaving.begin(), state.leaving.end());
  for (const ReloadState::LeavingLevel& leaving : state.leaving_levels)
    if (TenantConfig* tenant = find(config, leaving.tenant)) add_level(*tenant, leaving.level);
  for (const ReloadState::FormerAddress& former : state.former)
    if (TenantConfig* tenant = find(config, former.tenant)) add_address(config, *tenant, former);
  return config;
}

Expected<KeptDescriptor> keep_state(KeptDescriptors& kept, const ReloadState& state) {
  const UniqueFd memory(::memfd_create("softhca-configuration", MFD_CLOEXEC));
  if (!memory) return system_error("the configuration");
  if (const auto written = write_all(memory.get(), to_json(state).dump()); !written)
    return written.error();
  return kept.keep(kKind, kName, memory.get());
}

Expected<std::optional<ReloadState>> read_state(KeptDescriptors& kept) {
  const UniqueFd memory = kept.take_earlier(kKind, kName);
  if (!memory) return std::optional<ReloadState>();
  const auto text = read_all(memory.get());
  if (!text) return text.error();
  try {
    return std::optional(state_of(Json::parse(*text)));
  } catch (const std::exception& wrong) {
    return Error{std::string("the configuration that the earlier adapter kept: ") + wrong.what(),
                 EBADMSG};
  }
}

}  // namespace softhca::control
