// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace softhca::configuration {
namespace {

/// In the folder config.
std::string path_of(const char* file) {
  return std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/config/" + file;
}

std::string read_sample() {
  std::ostringstream text;
  text << std::ifstream(path_of("softhca-full.toml")).rdbuf();
  return text.str();
}

/// The sample with the settings behind "#" switched on.
std::string uncomment(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const bool setting =
        line.size() > 1 && line[0] == '#' && (std::islower(line[1]) || line[1] == '[');
    result += (setting ? line.substr(1) : line) + '\n';
  }
  return result;
}

constexpr const char* kTenant = "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";

Config parsed(const std::string& text) {
  auto config = parse_config(text, "test.toml");
  if (config) return *config;
  ADD_FAILURE() << config.error().message;
  return {};
}

TEST(Config, InstalledFileAndFullSample_EqualTheBuiltInDefaults) {
  for (const char* file : {"softhca.toml", "softhca-full.toml"}) {
    const auto config = load_config(path_of(file));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_TRUE(*config == default_config()) << file;
  }
}

TEST(Config, APortWithASocketHasItsAddressAndAllOfTheFamilyAsNeighbours) {
  const Config config = parsed(
      "[[port]]\nname = \"p\"\nsocket = \"10.0.0.1\"\nmtu = 1400\n"
      "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.1\"]\n");
  ASSERT_EQ(config.ports.size(), 1u);
  EXPECT_EQ(config.ports[0].socket, parse_address("10.0.0.1"));
  const InterfaceAddress own{*parse_address("10.0.0.1"), 0};
  EXPECT_EQ(config.ports[0].addresses, std::vector{own});
}

TEST(Config, APortWithTwoInterfacesIsTheSameHoweverTheyAreSpaced) {
  const auto port_of = [](const std::string& interfaces) {
    const auto config = parse_config("[[port]]\nname = \"p\"\ninterface = \"" + interfaces +
                                         "\"\naddresses = [\"10.0.0.1/24\"]\n"
                                         "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.1\"]\n",
                                     "test", {});
    return config ? config->ports.at(0).interface : config.error().message;
  };
  EXPECT_EQ(port_of("eth1,eth2"), "eth1, eth2");
  EXPECT_EQ(port_of(" eth1 ,  eth2"), "eth1, eth2");
  EXPECT_EQ(port_of("eth1"), "eth1");
}

TEST(Config, SettingsThatTheSampleSwitchesOffAreValid) {
  const Config config = parsed(uncomment(read_sample()));
  ASSERT_EQ(config.ports.size(), 1u);
  EXPECT_EQ(config.ports[0].interface, "eth1");
  EXPECT_EQ(config.ports[0].addresses.size(), 2u);
  EXPECT_EQ(config.ports[0].gateway4, parse_address("10.0.0.254"));
  EXPECT_EQ(config.ports[0].gateway6, parse_address("fe80::ff"));
  EXPECT_EQ(config.ports[0].vlan, 100);
  EXPECT_EQ(config.ports[0].mtu, 9000u);
  EXPECT_EQ(config.daemon.engine_cpu, 1u);
  EXPECT_EQ(config.daemon.runtime_dir, "/run/softhca");
}

TEST(Config, DefaultsGuaranteeHalfOfThePcbsAndShareTheRest) {
  const Config config = default_config();
  ASSERT_EQ(config.tenants.size(), 2u);
  for (const TenantConfig& tenant : config.tenants) {
    EXPECT_EQ(tenant.pcbs, (config.pools.pcbs - config.pools.dedicated_pcbs) / 4);
    EXPECT_TRUE(tenant.shared);
  }
  EXPECT_TRUE(config.ports.empty());
  EXPECT_EQ(to_string(config.tenants[0].addresses.at(0)), "198.18.0.1");
  EXPECT_EQ(to_string(config.tenants[1].addresses.at(0)), "198.18.0.2");
}

TEST(Config, ATenantAloneHasTheDefaultsOfTheStructures) {
  const Config config = parsed(kTenant);
  ASSERT_EQ(config.tenants.size(), 1u);
  EXPECT_EQ(config.pools, PoolsConfig{});
  EXPECT_EQ(config.device, DeviceConfig{});
  EXPECT_EQ(config.metrics, MetricsConfig{});
  TenantConfig expected;
  expected.name = "t";
  expected.addresses = {*parse_address("198.18.0.1")};
  expected.tvls.resize(1);
  expected.limits = totals_of(config.pools);
  EXPECT_EQ(config.tenants[0], expected);
}

TEST(Config, LimitsThatATenantDoesNotGiveAreAnEqualShare) {
  const Config config =
      parsed("[pools]\nqueue_pairs = 100\nmemory_regions = 9\nregistered_bytes = 5000\n" +
             std::string(kTenant) +
             "queue_pairs = 90\nregistered_bytes = 0\n[[tenant]]\nname = \"u\"\n"
             "addresses = [\"198.18.0.2\"]\n");
  const ObjectLimits& first = config.tenants.at(0).limits;
  const ObjectLimits& second = config.tenants.at(1).limits;
  EXPECT_EQ(first[Kind::kQueuePairs], 90u);
  EXPECT_EQ(first[Kind::kRegisteredBytes], 0u);
  EXPECT_EQ(first[Kind::kMemoryRegions], 4u);
  EXPECT_EQ(second[Kind::kQueuePairs], 50u);
  EXPECT_EQ(second[Kind::kRegisteredBytes], 2500u);
  EXPECT_EQ(second[Kind::kSessions], config.pools.sessions / 2);
}

TEST(Config, SizeOrRateWithAUnit_IsInBytes) {
  const Config config = parsed(
      "[pools]\nregistered_bytes = \"2G\"\n[[tenant]]\nname = \"t\"\n"
      "addresses = [\"198.18.0.1\"]\nregistered_bytes = \"100M\"\n"
      "rate = { bytes_per_second = \"10Gbit\", burst_bytes = \"64K\" }\n");
  EXPECT_EQ(config.pools.registered_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(config.tenants[0].rates.sent.bytes_per_second, 1'250'000'000u);
  EXPECT_EQ(config.tenants[0].rates.sent.burst_bytes, 65536u);
}

TEST(Config, MoreAddressesThanCanBeCompared_AreRefused) {
  std::string text;
  for (int port = 0; port < 33; ++port) {
    const std::string number = std::to_string(port), net = "10.0." + number;
    text += "[[port]]\nname = \"p" + number + "\"\ninterface = \"eth" + number +
            "\"\naddresses = [\"" + net + ".0-" + net + ".255/24\"]\n";
  }
  const auto config = parse_config(text + kTenant, "test.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, testing::HasSubstr("list 8449, at most 8192"));
}

TEST(Config, RangeOfAddresses_IsAListOfThem) {
  const Config config = parsed(
      "[[port]]\nname = \"p\"\ninterface = \"eth1\"\naddresses = [\"10.0.0.1-10.0.0.3/24\"]\n"
      "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.1-10.0.0.2\", \"10.0.0.3\"]\n");
  EXPECT_EQ(config.ports.at(0).addresses.size(), 3u);
  EXPECT_EQ(config.tenants.at(0).addresses,
            (std::vector<Gid>{*parse_address("10.0.0.1"), *parse_address("10.0.0.2"),
                              *parse_address("10.0.0.3")}));
}

TEST(Config, TemplatesAreReadAsTenantsAreAndAreNone) {
  const Config config = parsed(std::string(kTenant) + R"(
[[template]]
name = "t"
vcbs = 8
tvls = 2
levels = "default"
[[template]]
name = "web"
addresses = ["198.18.1.1", "198.18.1.2"]
pcbs = 999999  # whether there is room is known when a tenant is made
[[template.tvl]]
weight = 3
[[template.level]]
name = "only"
)");
  ASSERT_EQ(config.tenants.size(), 1u);
  ASSERT_EQ(config.templates.size(), 2u);
  EXPECT_TRUE(config.templates[0].addresses.empty());
  EXPECT_EQ(config.templates[0].levels.size(), 2u);
  EXPECT_EQ(config.templates[1].addresses.size(), 2u);
  EXPECT_EQ(config.templates[1].tvls.at(0).weight, 3u);
  EXPECT_EQ(config.templates[1].levels.at(0).name, "only");
}

TEST(Config, TemplatesAloneAreEnough) {
  EXPECT_TRUE(parsed("[[template]]\nname = \"web\"\n").tenants.empty());
}

TEST(Config, WithTemplatesALimitIsTheShareOfEachTenantThatThereMayBe) {
  const Config config = parsed("[pools]\ntenants = 5\nqueue_pairs = 100\n" + std::string(kTenant) +
                               "[[template]]\nname = \"web\"\n");
  EXPECT_EQ(config.tenants.at(0).limits[Kind::kQueuePairs], 20u);
  EXPECT_EQ(config.templates.at(0).limits[Kind::kQueuePairs], 20u);
}

TEST(Config, EveryLimitHasAPoolAndAKey) {
  std::string pools = "[pools]\n";
  std::string tenant = kTenant;
  for_each_kind([&](Kind kind) {
    const auto number = 20 + static_cast<int>(kind);
    pools += std::string(name_of(kind)) + " = " + std::to_string(2 * number) + '\n';
    tenant += std::string(name_of(kind)) + " = " + std::to_string(number) + '\n';
  });
  const Config config = parsed(pools + tenant);
  for_each_kind([&](Kind kind) {
    const auto number = 20 + static_cast<std::uint64_t>(kind);
    EXPECT_EQ(totals_of(config.pools)[kind], 2 * number) << name_of(kind);
    EXPECT_EQ(config.tenants.at(0).limits[kind], number) << name_of(kind);
  });
}

TEST(Config, ATenantOfTheDefaultsMayHave64000QueuePairs) {
  for (const TenantConfig& tenant : default_config().tenants)
    EXPECT_GE(tenant.limits[Kind::kQueuePairs], 64000u);
}

/// libfabric's reliable datagrams over verbs make one completion queue for 384 sends and as many
/// receives with each of 256 peers, whatever the device says that it can have.
TEST(Config, ACompletionQueueOfTheDefaultsServesAllPeersOfLibfabric) {
  constexpr std::uint32_t kPeers = 256;
  constexpr std::uint32_t kRequestsOfAPeer = 2 * 384;
  EXPECT_LT(kPeers * kRequestsOfAPeer, DeviceConfig::kMaxCqe);
}

TEST(Config, TvlsTakeWhatTheyDoNotSayFromTheTenantAndThePools) {
  const Config config = parsed(std::string("[pools]\nkick_list = 77\n") + kTenant +
                               "weight = 2\nexecution_credits = 5\n"
                               "[[tenant.tvl]]\nweight = 3\n[[tenant.tvl]]\nkick_list = 9\n");
  const auto& tvls = config.tenants.at(0).tvls;
  ASSERT_EQ(tvls.size(), 2u);
  EXPECT_EQ(tvls[0], (TvlConfig{3, 5, 0, 77}));
  EXPECT_EQ(tvls[1], (TvlConfig{2, 5, 0, 9}));
}

TEST(Config, DaemonKeys) {
  const Config config = parsed(
      "[daemon]\nruntime_dir = \"/x\"\nlog_level = \"debug\"\nidle = \"poll\"\nengine_cpu = 0\n"
      "[metrics]\naddress = \"\"\n" +
      std::string(kTenant));
  EXPECT_EQ(config.daemon.runtime_dir, "/x");
  EXPECT_EQ(config.daemon.log_level, "debug");
  EXPECT_EQ(config.daemon.idle, IdlePolicy::kPoll);
  EXPECT_EQ(config.daemon.engine_cpu, 0u);
  EXPECT_EQ(config.metrics.address, "");
}

TEST(Config, TenantKeys) {
  const Config config = parsed(
      "[[tenant]]\nname = \"web-1\"\naddresses = [\"198.18.0.1\", \"fd00::1\"]\nvcbs = 10\n"
      "vcbs_per_process = 0\npcbs = 20\nshared = false\ntvls = 2\nexecution_credits = 3\n"
      "completion_credits = 4\nsocket = { owner = \"www\", group = \"33\", mode = 0o600 }\n");
  const TenantConfig& tenant = config.tenants.at(0);
  EXPECT_EQ(tenant.addresses.size(), 2u);
  EXPECT_EQ(tenant.vcbs, 10u);
  EXPECT_EQ(tenant.vcbs_per_process, 0u);
  EXPECT_EQ(tenant.pcbs, 20u);
  EXPECT_FALSE(tenant.shared);
  EXPECT_EQ(tenant.tvls.size(), 2u);
  EXPECT_EQ(tenant.socket, (SocketConfig{"www", "33", 0600}));
}

TEST(Config, APoolMayBeGuaranteedToTheLastBuffer) {
  const Config config =
      parsed("[pools]\npcbs = 30\ndedicated_pcbs = 10\n" + std::string(kTenant) +
             "pcbs = 12\n[[tenant]]\nname = \"u\"\naddresses = [\"198.18.0.2\"]\npcbs = 8\n");
  EXPECT_EQ(config.tenants.at(1).pcbs, 8u);
}

TEST(Config, AFreeStandingAddressIsAllowedBesidePorts) {
  const Config config =
      parsed("[[port]]\nname = \"p\"\ndevice = \"net_null0\"\naddresses = [\"10.0.0.1/24\"]\n" +
             std::string(kTenant));
  EXPECT_EQ(config.ports.at(0).device, "net_null0");
}

TEST(Config, FileThatCannotBeReadIsNamed) {
  const auto config = load_config("/nonexistent/softhca.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, testing::StartsWith("/nonexistent/softhca.toml: "));
  EXPECT_EQ(config.error().code, ENOENT);
  EXPECT_FALSE(load_config("/")) << "a directory";
}

class RuntimeDir : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("XDG_RUNTIME_DIR");
  }
};

TEST_F(RuntimeDir, IsTheFirstThatTheServiceManagerGives) {
  setenv("RUNTIME_DIRECTORY", "/run/one:/run/two", 1);
  EXPECT_EQ(default_runtime_dir(), "/run/one");
}

TEST_F(RuntimeDir, DependsOnTheUser) {
  if (geteuid() == 0) {
    setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
    EXPECT_EQ(default_runtime_dir(), "/run/softhca");
  } else {
    EXPECT_EQ(default_runtime_dir(), "/tmp/softhca-" + std::to_string(geteuid()));
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    EXPECT_EQ(default_runtime_dir(), "/run/user/7/softhca");
  }
}

}  // namespace
}  // namespace softhca::configuration
