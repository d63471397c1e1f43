// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/configurations.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "daemon/configuration/config_check.hpp"
#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/configuration/schema/level_rules.hpp"
#include "tests/fuzz/requests/bench.hpp"
#include "tests/fuzz/requests/names.hpp"

namespace softhca::fuzz {
namespace {

using configuration::Config;
using configuration::LevelConfig;
using configuration::TenantConfig;

constexpr std::array kTenantNames = {"a", "b", "c", "d", "e", "f"};
constexpr std::array kLevelNames = {"low", "high", "own"};

std::uint32_t few(Input& input) { return input.byte() % 5u; }

TenantConfig* any_tenant(Config& config, Input& input) {
  if (config.tenants.empty()) return nullptr;
  return &config.tenants[input.byte() % config.tenants.size()];
}

RateLimits any_limits(Input& input) {
  static constexpr std::uint64_t kBytes[] = {0, 1000, 1'000'000, 100'000'000};
  static constexpr std::uint64_t kMessages[] = {0, 1, 1000, 1'000'000};
  const std::uint8_t choice = input.byte();
  return {.bytes_per_second = kBytes[choice % 4],
          .burst_bytes = std::uint64_t{1} << (choice / 4 % 4 * 7),
          .messages_per_second = kMessages[choice / 16 % 4],
          .burst_messages = std::uint64_t{1} << (choice / 64 * 3)};
}

configuration::RatesConfig any_rates(Input& input) {
  static constexpr std::uint64_t kMinimums[] = {0, 1000, 1'000'000, 50'000'000};
  configuration::RatesConfig rates;
  static_cast<RateLimits&>(rates.sent) = any_limits(input);
  rates.sent.min_bytes_per_second = kMinimums[input.byte() % 4];
  static_cast<RateLimits&>(rates.inbound) = any_limits(input);
  static_cast<RateLimits&>(rates.served) = any_limits(input);
  return rates;
}

// --- levels

std::uint32_t tvls_of_levels(const TenantConfig& tenant) {
  std::uint32_t sum = 0;
  for (const LevelConfig& level : tenant.levels) sum += level.tvls;
  return sum;
}

void add_level(TenantConfig& tenant, Input& input) {
  LevelConfig level;
  level.name = kLevelNames[input.byte() % kLevelNames.size()];
  if (find_level(tenant, level.name) != nullptr) return;
  level.pcbs = input.byte() % (tenant.pcbs + 1);
  level.tvls = input.byte() % 3u;
  level.shared = input.byte() % 4 != 0;
  level.is_default = tenant.levels.empty();
  tenant.levels.push_back(level);
}

void remove_level(TenantConfig& tenant, Input& input) {
  if (tenant.levels.empty()) return;
  tenant.levels.erase(tenant.levels.begin() +
                      input.byte() % static_cast<int>(tenant.levels.size()));
  if (tenant.levels.empty()) return;
  for (LevelConfig& level : tenant.levels) level.is_default = false;
  tenant.levels[input.byte() % tenant.levels.size()].is_default = true;
}

void change_level(TenantConfig& tenant, Input& input) {
  if (tenant.levels.empty()) return;
  LevelConfig& level = tenant.levels[input.byte() % tenant.levels.size()];
  switch (input.below(7)) {
    case 0:
      level.pcbs = few(input);
      return;
    case 1:
      level.tvls = input.byte() % 3u;
      return;
    case 2:
      level.shared = !level.shared;
      return;
    case 3:
      for (LevelConfig& other : tenant.levels) other.is_default = &other == &level;
      return;
    case 4:
      level.rates = any_rates(input);
      return;
    case 5: {
      // A service level and a traffic class belong to one level at most.
      const auto service_level = static_cast<std::uint8_t>(input.byte() % 4);
      const auto traffic_class = static_cast<std::uint8_t>(input.byte() % 4 << 5);
      for (LevelConfig& other : tenant.levels) {
        std::erase(other.service_levels, service_level);
        std::erase(other.traffic_classes, traffic_class);
      }
      level.service_levels.push_back(service_level);
      level.traffic_classes.push_back(traffic_class);
      return;
    }
    default:
      level.dscp = input.flag() ? std::optional<std::uint8_t>(input.byte() % 64) : std::nullopt;
      level.priority = input.flag() ? std::optional<std::uint8_t>(input.byte() % 8) : std::nullopt;
  }
}

// --- tenants

SrqPolicy any_policy(Input& input) {
  SrqPolicy policy;
  const std::uint8_t choice = input.byte();
  policy.limits.fill(choice % 4);
  if ((choice & 4) != 0) policy.limits[input.byte() % kImportances] = few(input);
  policy.kind = (choice & 8) != 0 ? LimitKind::kSoft : LimitKind::kHard;
  policy.on_exceed = static_cast<OnExceed>(input.byte() % kOnExceeds.size());
  policy.statistical = (choice & 16) != 0;
  policy.overcommit = (choice & 32) != 0 ? 1.5 : 1.0;
  policy.watermark = (choice & 64) != 0 ? few(input) : 0;
  return policy;
}

SrqRules any_rules(Input& input) {
  SrqRules rules(input.byte() % 3);
  for (SrqRule& rule : rules) {
    const std::uint8_t choice = input.byte();
    if ((choice & 1) != 0) rule.peers.push_back({ipv4_host(0), 24});
    if ((choice & 2) != 0) rule.level = kLevelNames[input.byte() % kLevelNames.size()];
    if ((choice & 4) != 0) rule.queue = 1 + few(input);
    if ((choice & 8) != 0) rule.limit = few(input);
    rule.importance = choice >> 5;
    if ((choice & 16) != 0) rule.kind = LimitKind::kSoft;
    if ((choice & 16) == 0)
      rule.on_exceed = static_cast<OnExceed>(input.byte() % kOnExceeds.size());
  }
  return rules;
}

bool is_taken(const Config& config, const Gid& gid) {
  return std::ranges::any_of(config.tenants, [&](const TenantConfig& tenant) {
    return std::ranges::find(tenant.addresses, gid) != tenant.addresses.end();
  });
}

void give_address(Config& config, TenantConfig& tenant, const Gid& gid) {
  if (is_taken(config, gid) || std::ranges::find(tenant.addresses, gid) != tenant.addresses.end())
    return;
  tenant.addresses.push_back(gid);
  auto& of_port = config.ports.front().addresses;
  const bool there =
      std::ranges::find(of_port, gid, &configuration::InterfaceAddress::gid) != of_port.end();
  if (!there && std::ranges::find(kPortAddresses, gid) != kPortAddresses.end())
    of_port.push_back({gid, static_cast<std::uint8_t>(gid.is_ipv4() ? 24 : 64)});
}

void change_addresses(Config& config, TenantConfig& tenant, Input& input) {
  const Gid gid = any_own_address(input);
  if (input.flag()) return give_address(config, tenant, gid);
  if (tenant.addresses.size() > 1) std::erase(tenant.addresses, gid);
}

void change_tvls(TenantConfig& tenant, Input& input) {
  if (input.flag()) {
    tenant.tvls.resize(1 + input.below(4), tenant.tvls.back());
    return;
  }
  configuration::TvlConfig& tvl = tenant.tvls[input.byte() % tenant.tvls.size()];
  tvl.weight = 1 + few(input);
  tvl.execution_credits = few(input);
  tvl.completion_credits = few(input);
  tvl.kick_list = 1 + few(input);
}

void change_tenant(Config& config, TenantConfig& tenant, Input& input) {
  switch (input.below(11)) {
    case 0:
      tenant.pcbs = 2 * few(input);
      return;
    case 1:
      return change_tvls(tenant, input);
    case 2:
      tenant.shared = !tenant.shared;
      return;
    case 3:
      tenant.rates = any_rates(input);
      return;
    case 4:
      tenant.srq = any_policy(input);
      tenant.srq_rules = any_rules(input);
      return;
    case 5:
      return change_addresses(config, tenant, input);
    case 6:
      tenant.lends = !tenant.lends;
      return;
    case 7:
      tenant.dscp = input.flag() ? std::optional<std::uint8_t>(input.byte() % 64) : std::nullopt;
      tenant.priority = input.flag() ? std::optional<std::uint8_t>(input.byte() % 8) : std::nullopt;
      tenant.kept_packets = input.flag() ? std::optional(few(input)) : std::nullopt;
      return;
    case 8:
      return add_level(tenant, input);
    case 9:
      return remove_level(tenant, input);
    default:
      return change_level(tenant, input);
  }
}

// --- what belongs to no tenant

void change_port(configuration::PortConfig& port, Input& input) {
  static constexpr configuration::InterfaceAddress kSpare{ipv4_host(200), 24};
  switch (input.below(4)) {
    case 0:
      std::erase_if(port.addresses, [gid = one_of(kPortAddresses, input)](const auto& address) {
        return address.gid == gid;
      });
      return;
    case 1:
      port.gateway4 = input.flag() ? std::optional(ipv4_host(2)) : std::nullopt;
      return;
    case 2:
      port.neighbours.clear();
      if (input.flag()) port.neighbours.emplace_back("10.0.0.9=02:00:00:00:00:09");
      return;
    default:
      if (std::ranges::find(port.addresses, kSpare) == port.addresses.end())
        port.addresses.push_back(kSpare);
  }
}

void change_peers(Config& config, Input& input) {
  config.peers.clear();
  if (input.flag()) return;
  PeerConfig peer;
  peer.name = "hosts";
  peer.addresses.push_back({kHosts[0], 32});
  peer.plain = static_cast<PlainPackets>(input.byte() % kPlainPackets.size());
  if (input.flag()) peer.secrets.push_back({});
  config.peers.push_back(peer);
}

void change_parameters(Config& config, Input& input) {
  switch (input.below(3)) {
    case 0:
      config.doorbells.threshold = few(input) % 2;
      config.doorbells.dedicated_threshold = few(input);
      config.doorbells.adaptive = input.flag();
      config.doorbells.prune = static_cast<PrunePolicy>(input.byte() % kPrunePolicies.size());
      return;
    case 1:
      config.congestion.mode = static_cast<CongestionMode>(input.byte() % 3);
      config.congestion.datagrams = input.flag();
      config.congestion.rpg_max_rate = 1 + few(input);
      return;
    default:
      config.reliability.selective_repeat = input.flag();
      config.reliability.out_of_order = 8 * few(input);
  }
}

Config make_empty() {
  Config config;
  config.daemon.runtime_dir = "/run/softhca";
  config.pools.tenants = Bench::kTenants;
  config.pools.pcbs = Bench::kPcbs + Bench::kDedicated;
  config.pools.dedicated_pcbs = Bench::kDedicated;
  config.pools.tvls = Bench::kTvls;
  config.pools.execution_credits = Bench::kExecution;
  config.pools.completion_credits = Bench::kCompletion;
  config.pools.min_bytes_per_second = 100'000'000;
  config.doorbells.entries = Bench::kDoorbells;
  config.doorbells.threshold = 1;
  config.reliability.kept_packets = 32;
  configuration::PortConfig port;
  port.name = "uplink";
  port.interface = "eth1";
  config.ports.push_back(port);
  return config;
}

}  // namespace

const Config& empty_configuration() {
  static const Config kConfig = make_empty();
  return kConfig;
}

void add_tenant(Config& config, Input& input) {
  const auto name = std::ranges::find_if(
      kTenantNames, [&](const char* each) { return find_tenant(config, each) == nullptr; });
  if (name == kTenantNames.end()) return;
  TenantConfig tenant;
  tenant.name = *name;
  tenant.pcbs = few(input);
  tenant.shared = input.byte() % 4 != 0;
  tenant.tvls.resize(1 + input.byte() % 2);
  for (configuration::TvlConfig& tvl : tenant.tvls)
    tvl = {.weight = 1, .execution_credits = 1, .completion_credits = 2, .kick_list = 8};
  const std::uint8_t first = input.byte();
  for (std::uint8_t i = 0; tenant.addresses.size() < 1u + first % 2 && i < 8; ++i) {
    const std::size_t at = (first / 2 + i) % (kPortAddresses.size() + kInnerAddresses.size());
    give_address(config, tenant,
                 at < kPortAddresses.size() ? kPortAddresses[at]
                                            : kInnerAddresses[at - kPortAddresses.size()]);
  }
  if (!tenant.addresses.empty()) config.tenants.push_back(tenant);
}

void change_something(Config& config, Input& input) {
  TenantConfig* const tenant = any_tenant(config, input);
  switch (input.below(12)) {
    case 0:
      return add_tenant(config, input);
    case 1:
      if (tenant != nullptr)
        config.tenants.erase(config.tenants.begin() + (tenant - config.tenants.data()));
      return;
    case 2:
      return change_port(config.ports.front(), input);
    case 3:
      return change_peers(config, input);
    case 4:
      config.pools.dedicated_pcbs = 1 + input.below(Bench::kDedicated + 4);
      return;
    case 5:
      return change_parameters(config, input);
    default:
      if (tenant != nullptr) change_tenant(config, *tenant, input);
  }
}

bool is_valid(const Config& config) {
  for (const TenantConfig& tenant : config.tenants)
    if (tenant.addresses.empty() || tvls_of_levels(tenant) > tenant.tvls.size() ||
        configuration::find_mistake(tenant))
      return false;
  return static_cast<bool>(configuration::check_together(config));
}

}  // namespace softhca::fuzz
