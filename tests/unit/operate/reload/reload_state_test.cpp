// SPDX-License-Identifier: Apache-2.0

// The configuration in force, as the next adapter takes it up.
#include "daemon/operate/reload/reload_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/configuration/schema/schema_print.hpp"
#include "daemon/operate/reload/config_json.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca::control {
namespace {

using configuration::Config;
using configuration::TenantConfig;

/// What a file can say, beside what the sample has.
constexpr const char* kRich = R"(
[daemon]
runtime_dir = "/run/x"
log_level = "debug"
idle = "poll"
engine_cpu = 0
drain_timeout_s = 30
[metrics]
address = "127.0.0.1:9999"
[doorbells]
adaptive = false
[connections]
identifiers = 100
[[port]]
name = "p"
socket = "10.0.0.1"
[[port]]
name = "q"
interface = "eth9"
addresses = ["10.1.0.1/24", "fd00::1/64"]
gateway4 = "10.1.0.254"
neighbours = ["10.1.0.2=02:00:00:00:00:02"]
vlan = 7
mtu = 4200
[[peer]]
name = "them"
addresses = ["10.1.0.0/24", "fd00::/64"]
plain = "allow"
[[tenant]]
name = "one"
share = "10%"
class = "latency"
dscp = 10
sessions = 7
[tenant.socket]
owner = "root"
mode = 0o600
[tenant.rate]
bytes_per_second = 1000000
[tenant.srq]
limits = [1, 2, 3, 4, 5, 6, 7, 8]
[[tenant.device]]
name = "first0"
addresses = ["10.0.0.1"]
[[tenant.device]]
guid = "0200:5eff:fe10:0001"
rate = "25Gbit"
pci = "0000:3b:00.0"
addresses = ["10.1.0.1", "fd00::1"]
[[tenant.tvl]]
weight = 3
[[tenant.tvl]]
kick_list = 17
[[tenant.level]]
name = "high"
tvls = 1
pcbs = 20
vcbs = 20
default = true
users = ["root", "0"]
service_levels = [3, 4]
[[tenant.level]]
name = "low"
tvls = 1
pcbs = 20
vcbs = 20
socket = { mode = 0o660 }
[[tenant.srq_rule]]
peers = ["10.1.0.0/16"]
level = "low"
limit = 5
[[tenant]]
name = "two"
addresses = ["198.18.0.2"]
levels = "default"
tvls = 2
[[template]]
name = "like"
addresses = ["198.18.1.1-198.18.1.9"]
share = "1%"
)";

Config rich() {
  auto config = configuration::parse_config(kRich, "rich.toml");
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return configuration::default_config();
  config->peers.front().secrets.emplace_back().fill(std::byte{0xa5});
  return *config;
}

Config read_back(const Config& config) { return config_of(Json::parse(to_json(config).dump())); }

void expect_same_given(const std::vector<TenantConfig>& one,
                       const std::vector<TenantConfig>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(one[i].given.is_same(other[i].given)) << one[i].name;
    ASSERT_EQ(one[i].tvls.size(), other[i].tvls.size());
    for (std::size_t tvl = 0; tvl < one[i].tvls.size(); ++tvl)
      EXPECT_TRUE(one[i].tvls[tvl].given.is_same(other[i].tvls[tvl].given)) << one[i].name;
  }
}

TEST(ConfigJson, EveryKey_WrittenAndRead_TheSame) {
  const auto sample = configuration::parse_config(configuration::sample_configuration(), "sample");
  ASSERT_TRUE(sample) << sample.error().message;
  for (const Config& config : {configuration::default_config(), *sample, rich()}) {
    const Config back = read_back(config);
    EXPECT_EQ(back, config);
    EXPECT_EQ(back.metrics.chosen, config.metrics.chosen);
    expect_same_given(back.tenants, config.tenants);
    expect_same_given(back.templates, config.templates);
  }
}

TEST(ConfigJson, LevelOfTheTenantsOwn_WrittenAndRead_TheSame) {
  configuration::LevelConfig level{.name = "own", .is_default = true};
  level.own = true;
  level.own_rules = {.cgroups = {"/a"}, .service_levels = {1}, .traffic_classes = {8}};
  EXPECT_EQ(level_config_of(Json::parse(to_json(level).dump())), level);
}

ReloadState some_state() {
  ReloadState state{.file = configuration::default_config(),
                    .in_force = rich(),
                    .given = rich().tenants,
                    .on_demand = {},
                    .own = {},
                    .left_out = {},
                    .absent = {},
                    .leaving = {},
                    .leaving_levels = {},
                    .former = {}};
  state.version = "1.2.3";
  state.started = {.time = std::chrono::system_clock::time_point(std::chrono::seconds(5)),
                   .steady = std::chrono::steady_clock::time_point(std::chrono::seconds(7))};
  state.on_demand.push_back({{.name = "made", .template_name = "like"}, false});
  configuration::SubAllocation own;
  own.levels = {{.name = "mine", .own = true}};
  own.rules["mine"].service_levels = {2};
  own.changes = {{.tenant = "one",
                  .setting = configuration::LiveSetting::kPcbs,
                  .amount = 9,
                  .level = "high"}};
  state.own["one"] = std::make_shared<const configuration::SubAllocation>(std::move(own));
  state.left_out[7] = {.who = "tenant x", .resource = "pcbs", .asked = 3, .message = "why"};
  state.absent["gone"] = {.message = "no room"};
  TenantConfig& leaving = state.leaving.emplace_back(rich().tenants.back());
  leaving.name = "leaver";
  leaving.addresses = {Gid::from_ipv4(0xc6120009)};
  state.leaving_levels.push_back({"one", {.name = "old", .tvls = 2}});
  state.former.push_back({"one", 1, 1, {Gid::from_ipv4(0x0a010009), 24}});
  state.former.push_back({"two", 0, std::nullopt, {Gid::from_ipv4(0xc6120003), 0}});
  return state;
}

/// The end of an adapter at a keeper.
struct Link {
  explicit Link(FakeKeeper& keeper) : keeping(keeper) {
    EXPECT_TRUE(records.adopt());
    auto left = records.take_adopted();
    EXPECT_TRUE(kept.adopt(left));
    records.end_restoring();
  }
  FakeKeeping keeping;
  records::RecordStore records{&keeping};
  KeptDescriptors kept{&keeping, records};
};

/// Never erased, as when the process of an adapter ends.
std::vector<KeptDescriptor>& left_behind() {
  static auto* const all = new std::vector<KeptDescriptor>;
  return *all;
}

TEST(ReloadState, KeptState_ReadByTheNextAdapter_TheSame) {
  FakeKeeper keeper;
  const ReloadState state = some_state();
  {
    Link first(keeper);
    const auto none = read_state(first.kept);
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
    auto kept = keep_state(first.kept, state);
    ASSERT_TRUE(kept) << kept.error().message;
    left_behind().push_back(std::move(*kept));
    first.keeping.retire();
  }
  Link next(keeper);
  const auto read = read_state(next.kept);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  const ReloadState& back = **read;
  EXPECT_EQ(back.file, state.file);
  EXPECT_EQ(back.in_force, state.in_force);
  EXPECT_EQ(back.given, state.given);
  ASSERT_EQ(back.on_demand.size(), 1u);
  EXPECT_EQ(back.on_demand[0].request.name, "made");
  EXPECT_FALSE(back.on_demand[0].saved);
  ASSERT_TRUE(back.own.contains("one"));
  EXPECT_EQ(back.own.at("one")->levels, state.own.at("one")->levels);
  EXPECT_EQ(back.own.at("one")->rules, state.own.at("one")->rules);
  ASSERT_EQ(back.own.at("one")->changes.size(), 1u);
  EXPECT_EQ(back.own.at("one")->changes[0].level, "high");
  EXPECT_EQ(back.own.at("one")->changes[0].amount, 9u);
  EXPECT_EQ(back.left_out.at(7).message, "why");
  EXPECT_EQ(back.absent.at("gone").message, "no room");
  EXPECT_EQ(back.version, state.version);
  EXPECT_EQ(back.started.time, state.started.time);
  EXPECT_EQ(back.started.steady, state.started.steady);
  EXPECT_EQ(back.leaving, state.leaving);
  EXPECT_EQ(back.leaving_levels[0].level, state.leaving_levels[0].level);
  EXPECT_EQ(with_leavers(back), with_leavers(state));
}

TEST(ReloadState, DamagedText_IsRefused) {
  FakeKeeper keeper;
  for (const std::string text : {"", "{", "[]", R"({"file": 7})"}) {
    SCOPED_TRACE(text);
    {
      Link first(keeper);
      const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
      ASSERT_EQ(::write(memory.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      auto kept = first.kept.keep(records::Kind::kSettings, "configuration", memory.get());
      ASSERT_TRUE(kept);
      left_behind().push_back(std::move(*kept));
      first.keeping.retire();
    }
    Link next(keeper);
    const auto read = read_state(next.kept);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, EBADMSG);
    EXPECT_THAT(read.error().message, testing::HasSubstr("the earlier adapter kept"));
  }
}

TEST(WithLeavers, LeavingTenantLevelAndAddress_AreInTheConfiguration) {
  const ReloadState state = some_state();
  const Config config = with_leavers(state);
  ASSERT_EQ(config.tenants.size(), 3u);
  EXPECT_EQ(config.tenants[2], state.leaving[0]);
  const TenantConfig& one = config.tenants[0];
  ASSERT_EQ(one.levels.size(), 3u);
  EXPECT_EQ(one.levels[2].name, "old");
  EXPECT_FALSE(one.levels[2].is_default);
  EXPECT_EQ(one.tvls.size(), state.in_force.tenants[0].tvls.size() + 2);
  const std::vector<Gid> addresses = {Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0x0a010001),
                                      *configuration::parse_address("fd00::1"),
                                      Gid::from_ipv4(0x0a010009)};
  EXPECT_EQ(one.addresses, addresses);
  EXPECT_EQ(one.devices[1].addresses.back(), addresses.back());
  EXPECT_EQ(config.ports[1].addresses.back(),
            (configuration::InterfaceAddress{addresses.back(), 24}));
  EXPECT_EQ(config.ports[0].addresses, state.in_force.ports[0].addresses);
  EXPECT_EQ(config.tenants[1].addresses.back(), Gid::from_ipv4(0xc6120003));
}

TEST(WithLeavers, LevelOfTheTenantsOwn_StaysBehindTheLeavingOne) {
  ReloadState state = some_state();
  TenantConfig& one = state.in_force.tenants[0];
  one.levels.push_back({.name = "mine", .own = true});
  one.levels.back().own = true;
  const TenantConfig with = with_leavers(state).tenants[0];
  EXPECT_EQ(with.levels[2].name, "old");
  EXPECT_EQ(with.levels[3].name, "mine");
}

}  // namespace
}  // namespace softhca::control
