// SPDX-License-Identifier: Apache-2.0

// [[tenant.level]]: the values that the configuration reads, and the errors, each with its line and
// key.
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {
namespace {

const std::string kLevelsTenant =
    "[[tenant]]\n"                      // 1
    "name = \"weather\"\n"              // 2
    "addresses = [\"198.18.0.1\"]\n"    // 3
    "vcbs = 25\npcbs = 20\ntvls = 4\n"  // 4 to 6
    "execution_credits = 2\ncompletion_credits = 3\n";

std::string levels_error(const std::string& levels) {
  const auto config = parse_config(kLevelsTenant + levels, "test.toml");
  return config ? "good" : config.error().message;
}
void expect_error(const std::string& levels, const std::string& place, const std::string& text) {
  const std::string error = levels_error(levels);
  EXPECT_NE(error.find("test.toml:" + place), std::string::npos) << error;
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

TEST(ConfigLevels, DivideTheTenant) {
  const auto config = parse_config(kLevelsTenant + R"(
[[tenant.level]]
name = "alerts"
vcbs = 15
pcbs = 12
tvls = 2
weight = 3
execution_credits = 5
kick_list = 7
shared = false
users = ["ops", "1001"]
groups = ["duty"]
socket = { mode = 0o600 }
[[tenant.level]]
name = "other"
vcbs = 10
default = true
)",
                                   "test.toml");
  ASSERT_TRUE(config) << config.error().message;
  const TenantConfig& tenant = config->tenants.at(0);
  ASSERT_EQ(tenant.levels.size(), 2u);
  const LevelConfig& alerts = tenant.levels[0];
  EXPECT_EQ(alerts.vcbs, 15u);
  EXPECT_EQ(alerts.pcbs, 12u);
  EXPECT_FALSE(alerts.shared);
  EXPECT_FALSE(alerts.is_default);
  EXPECT_EQ(alerts.users, (std::vector<std::string>{"ops", "1001"}));
  EXPECT_EQ(alerts.groups, (std::vector<std::string>{"duty"}));
  ASSERT_TRUE(alerts.socket);
  EXPECT_EQ(alerts.socket->mode, 0600u);
  EXPECT_TRUE(tenant.levels[1].is_default);
  ASSERT_EQ(tenant.tvls.size(), 4u);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(tenant.tvls[i].weight, 3u);
    EXPECT_EQ(tenant.tvls[i].execution_credits, 5u);
    EXPECT_EQ(tenant.tvls[i].completion_credits, 3u);
    EXPECT_EQ(tenant.tvls[i].kick_list, 7u);
  }
  EXPECT_EQ(tenant.tvls[2].weight, 1u);
  EXPECT_EQ(tenant.tvls[2].execution_credits, 2u);
}

TEST(ConfigLevels, HaveQueuePairsOfServiceLevelsAndTrafficClasses) {
  const std::string first =
      "[[tenant.level]]\nname = \"a\"\nservice_levels = [0, 15]\ntraffic_classes = [104]\n";  // 9
  const auto config = parse_config(
      kLevelsTenant + first + "[[tenant.level]]\nname = \"b\"\ntraffic_classes = [0, 255]\n", "t");
  ASSERT_TRUE(config) << config.error().message;
  const auto& levels = config->tenants[0].levels;
  EXPECT_EQ(levels[0].service_levels, (std::vector<std::uint8_t>{0, 15}));
  EXPECT_EQ(levels[0].traffic_classes, (std::vector<std::uint8_t>{104}));
  EXPECT_TRUE(levels[1].service_levels.empty());
  EXPECT_EQ(levels[1].traffic_classes, (std::vector<std::uint8_t>{0, 255}));
  const std::string second = first + "[[tenant.level]]\nname = \"b\"\n";  // 13, 14
  expect_error(second + "service_levels = [1, 15]\n", "15: tenant.level.service_levels",
               "15 already belongs to level a");
  expect_error(second + "traffic_classes = [106]\n", "15: tenant.level.traffic_classes",
               "106 already belongs to level a");
  for (const char* wrong : {"[16]", "[-1]", "3", "[\"3\"]", "[1.5]"})
    expect_error(second + "service_levels = " + wrong + "\n", "15: tenant.level.service_levels",
                 "must be a list of whole numbers from 0 to 15");
  expect_error(second + "traffic_classes = [256]\n", "15: tenant.level.traffic_classes",
               "must be a list of whole numbers from 0 to 255");
}

TEST(ConfigLevels, TheFirstIsTheDefaultWhenNoneSaysSo) {
  const auto config = parse_config(
      kLevelsTenant + "[[tenant.level]]\nname=\"a\"\n[[tenant.level]]\nname=\"b\"\n", "t");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->tenants[0].levels[0].is_default);
  EXPECT_FALSE(config->tenants[0].levels[1].is_default);
}

TEST(ConfigLevels, RefusesWhatDoesNotFit) {
  const std::string first = "[[tenant.level]]\nname = \"a\"\nvcbs = 15\npcbs = 15\n";  // 9 to 12
  const std::string second = "[[tenant.level]]\nname = \"b\"\n";                       // 13, 14
  expect_error(first + second + "vcbs = 11\n", "15: tenant.level.vcbs", "only 10 of the tenant's");
  expect_error(first + second + "pcbs = 6\n", "15: tenant.level.pcbs", "only 5 of the tenant's");
  expect_error(first + "tvls = 5\n", "13: tenant.level.tvls", "must be from 0 to 4");
  expect_error(first + "tvls = 4\n[[tenant.level]]\nname = \"b\"\n", "14: tenant.level.tvls",
               "leave one for this level");
  expect_error(first + "weight = 2\n", "13: tenant.level.weight", "set its `tvls`");
  expect_error(first + "[[tenant.level]]\nname = \"a\"\n", "14: tenant.level.name", "already");
  expect_error(first + "default = true\n" + second + "default = true\n", "16: tenant.level.default",
               "one default level");
  expect_error(first + "tvls = 1\nexecution_credits = 0\nshared = false\n",
               "15: tenant.level.shared", "never send");
  expect_error("[[tenant.level]]\n", "9: tenant.level.name", "missing");
  expect_error(first + "users = [\"root\",\n\"\"]\n", "14: tenant.level.users", "empty name");
  expect_error(first + "colour = 1\n", "13: tenant.level.colour", "");
}

TEST(ConfigLevels, MarkTheirPackets) {
  const auto config =
      parse_config(kLevelsTenant +
                       "dscp = 26\n[[tenant.level]]\nname = \"alerts\"\ndscp = 46\npriority = 5\n"
                       "[[tenant.level]]\nname = \"other\"\n",
                   "test.toml");
  ASSERT_TRUE(config) << config.error().message;
  const TenantConfig& tenant = config->tenants.at(0);
  EXPECT_EQ(tenant.dscp, 26);
  EXPECT_FALSE(tenant.priority);
  EXPECT_EQ(tenant.levels.at(0).dscp, 46);
  EXPECT_EQ(tenant.levels.at(0).priority, 5);
  EXPECT_FALSE(tenant.levels.at(1).dscp);
  expect_error("dscp = 64\n", "9", "tenant.dscp");
  expect_error("[[tenant.level]]\nname = \"alerts\"\npriority = 8\n", "11",
               "tenant.level.priority");
}

TEST(ConfigLevels, KickOfLevel_NotGiven_IsTheTenants) {
  const auto config = parse_config(
      kLevelsTenant +
          "kick = \"virtual\"\n[[tenant.level]]\nname = \"alerts\"\nkick = \"explicit\"\n"
          "[[tenant.level]]\nname = \"other\"\n",
      "test.toml");
  ASSERT_TRUE(config) << config.error().message;
  const TenantConfig& tenant = config->tenants.at(0);
  EXPECT_EQ(tenant.programs.kick, KickChoice::kVirtual);
  EXPECT_EQ(tenant.levels.at(0).kick, KickChoice::kExplicit);
  EXPECT_FALSE(tenant.levels.at(1).kick);
  expect_error("kick = \"later\"\n", "9", "tenant.kick");
  expect_error("[[tenant.level]]\nname = \"alerts\"\nkick = true\n", "11", "tenant.level.kick");
}

TEST(ConfigLevels, OneWordMakesLowAndHigh) {
  const auto config =
      parse_config(kLevelsTenant + "levels = \"default\"\nweight = 8\n", "test.toml");
  ASSERT_TRUE(config) << config.error().message;
  const TenantConfig& tenant = config->tenants.at(0);
  ASSERT_EQ(tenant.levels.size(), 2u);
  const LevelConfig &low = tenant.levels[0], &high = tenant.levels[1];
  EXPECT_EQ(low.name, "low");
  EXPECT_EQ(high.name, "high");
  EXPECT_TRUE(low.is_default);
  EXPECT_FALSE(high.is_default);
  for (const LevelConfig& level : tenant.levels) {
    EXPECT_EQ(level.vcbs, 6u);
    EXPECT_EQ(level.pcbs, 5u);
    EXPECT_EQ(level.tvls, 2u);
    EXPECT_TRUE(level.shared);
  }
  for (const std::size_t i : {0u, 1u}) EXPECT_EQ(tenant.tvls.at(i).weight, 2u);
  for (const std::size_t i : {2u, 3u}) EXPECT_EQ(tenant.tvls.at(i).weight, 8u);
}

TEST(ConfigLevels, OneWordDoesNotGoTogetherWithTables) {
  expect_error("levels = \"default\"\n[[tenant.level]]\nname = \"alerts\"\n", "9",
               "is given together with [[tenant.level]]");
  expect_error("levels = \"some\"\n", "9", "levels");
  const auto config = parse_config(
      "[[tenant]]\nname = \"a\"\naddresses = [\"198.18.0.1\"]\ntvls = 1\nlevels = \"default\"\n",
      "test.toml");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("needs at least two TVLs"), std::string::npos)
      << config.error().message;
}

TEST(ConfigLevels, OneWordIsNoneByDefault) {
  const auto config = parse_config(kLevelsTenant + "levels = \"given\"\n", "test.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->tenants.at(0).levels.empty());
}

}  // namespace
}  // namespace softhca::configuration
