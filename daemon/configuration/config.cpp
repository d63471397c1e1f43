// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ranges>

#include "daemon/base/small_file.hpp"
#include "daemon/configuration/config_machine.hpp"
#include "daemon/configuration/config_peers.hpp"
#include "daemon/configuration/config_read.hpp"
#include "daemon/configuration/schema/document.hpp"
#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/tenant_amounts.hpp"

namespace softhca::configuration {

constinit const std::string_view DeviceConfig::kFirmware = SOFTHCA_VERSION;
static_assert(sizeof SOFTHCA_VERSION <= 32);

ObjectLimits totals_of(const PoolsConfig& pools) {
  ObjectLimits totals;
  for_each_kind([&](Kind kind) {
    totals[kind] = amount_in(*find_key(schema_of<PoolsConfig>(), name_of(kind)), &pools);
  });
  return totals;
}

namespace {

/// Returns the daemon's directory in a variable of systemd: the first of several that colons
/// separate. Empty: the variable is not set.
std::string directory_of_service(const char* variable) {
  const char* dir = std::getenv(variable);
  return dir != nullptr ? std::string(dir, std::strcspn(dir, ":")) : std::string();
}

}  // namespace

std::string default_state_dir() { return directory_of_service("STATE_DIRECTORY"); }

std::string default_runtime_dir() {
  if (auto dir = directory_of_service("RUNTIME_DIRECTORY"); !dir.empty()) return dir;
  if (geteuid() == 0) return "/run/softhca";
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir && *dir)
    return std::string(dir) + "/softhca";
  return "/tmp/softhca-" + std::to_string(geteuid());
}

const TenantConfig* find_tenant(const Config& config, std::string_view name) {
  for (const TenantConfig& tenant : config.tenants)
    if (tenant.name == name) return &tenant;
  return nullptr;
}

const LevelConfig* find_level(const TenantConfig& tenant, std::string_view name) {
  for (const LevelConfig& level : tenant.levels)
    if (level.name == name) return &level;
  return nullptr;
}

std::vector<TenantDevice> devices_of(const TenantConfig& tenant, const DeviceConfig& device) {
  if (!tenant.devices.empty()) return tenant.devices;
  TenantDevice only;
  only.name = device.name;
  only.addresses = tenant.addresses;
  return {std::move(only)};
}

bool is_reserved(const LevelConfig& level) {
  return level.socket || !level.users.empty() || !level.groups.empty() || !level.cgroups.empty();
}

Config default_config() {
  Config config;
  config.daemon.runtime_dir = default_runtime_dir();
  config.daemon.state_dir = default_state_dir();
  constexpr Share kQuarter{kWhole.tenths / 4};
  const auto add_tenant = [&](const char* name, std::uint32_t address) {
    TenantConfig& tenant = config.tenants.emplace_back();
    tenant.name = name;
    tenant.addresses = {Gid::from_ipv4(address)};
    tenant.share = kQuarter;
    constexpr std::size_t kTvls = 4;
    const TenantAmounts amounts = amounts_of(tenant.share, tenant.workload, config.pools, kTvls);
    give(tenant, amounts);
    tenant.given.add("tvls");
    tenant.tvls.assign(kTvls, amounts.tvl);
  };
  add_tenant("a", 0xc6120001);
  add_tenant("b", 0xc6120002);
  const std::vector<Share> shares(config.tenants.size(), kQuarter);
  for (TenantConfig& tenant : config.tenants)
    tenant.limits = limits_of(kQuarter, unshared(shares), shares.size(), config.pools);
  return config;
}

std::vector<std::string> PortConfig::interfaces() const {
  std::vector<std::string> names;
  if (interface.empty()) return names;
  for (const auto part : std::views::split(std::string_view(interface), ',')) {
    std::string_view one(part.begin(), part.end());
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    names.emplace_back(one.substr(0, one.find_last_not_of(' ') + 1));
  }
  return names;
}

namespace {

enum class Scope { kText, kMachine };

Expected<Config> read_config(std::string_view text, const std::string& filename, Scope scope,
                             const std::vector<HostAddress>& host) {
  const auto document = parse_document(text);
  if (!document) return Error{filename + ':' + document.error().message, EINVAL};
  Config config;
  config.daemon.runtime_dir = default_runtime_dir();
  config.daemon.state_dir = default_state_dir();
  Problems problems;
  const ConfigSource source = read_document(*document, config, host, problems);
  if (scope == Scope::kMachine) {
    check_machine(config, source, problems);
    read_peer_keys(config, source, problems);
  }
  if (!problems.empty()) return Error{problems.report(filename), EINVAL};
  // However the names are spaced, it is the same port.
  for (PortConfig& port : config.ports)
    if (const std::vector<std::string> names = port.interfaces(); names.size() == 2)
      port.interface = names[0] + ", " + names[1];
  return config;
}

}  // namespace

Expected<Config> parse_config(std::string_view text, const std::string& filename,
                              const std::vector<HostAddress>& host) {
  return read_config(text, filename, Scope::kText, host);
}

Expected<Config> load_config(const std::string& path) {
  constexpr std::size_t kMost = (std::size_t{1} << 20) + 1;  // one more than the longest document
  const auto text = read_small_file(path, kMost);
  if (!text) return Error{path + ": cannot be read: " + text.error().message, text.error().code};
  const auto host = host_addresses();
  if (!host) return host.error();
  return read_config(*text, path, Scope::kMachine, *host);
}

}  // namespace softhca::configuration
