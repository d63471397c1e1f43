// SPDX-License-Identifier: Apache-2.0

// Limits of rdma_cm: [connections], a tenant's `connections`, changes of them, and how many
// connections guarantees carry.
#include "daemon/configuration/connections_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/connections_carried.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse_connections(const std::string& common, const std::string& own) {
  return parse_config(common + "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n" + own,
                      "t.toml");
}
std::string connections_error(const std::string& common, const std::string& own) {
  const auto config = parse_connections(common, own);
  return config ? "accepted" : config.error().message;
}

TEST(ConnectionsConfig, NothingGiven) {
  const auto config = parse_connections("", "");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->tenants[0].connections, ConnectionsConfig{});
}

TEST(ConnectionsConfig, ATenantsOwnComesBeforeTheDefaultOfAll) {
  const auto config = parse_connections("[connections]\nlisteners = 7\nhalf_open = 8\n",
                                        "connections = { half_open = 9, pcbs_each = 2 }\n");
  ASSERT_TRUE(config) << config.error().message;
  ConnectionsConfig expected;
  expected.listeners = 7;
  expected.half_open = 9;
  expected.pcbs_each = 2;
  EXPECT_EQ(config->tenants[0].connections, expected);
}

TEST(ConnectionsConfig, Mistakes) {
  EXPECT_THAT(connections_error("", "connections = { identifiers = 65537 }\n"),
              HasSubstr("t.toml:4: tenant.connections.identifiers:"));
  EXPECT_THAT(connections_error("[connections]\nlisteners = 65537\n", ""),
              HasSubstr("t.toml:2: connections.listeners:"));
  EXPECT_THAT(connections_error("[connections]\nlimit = 1\n", ""), HasSubstr("connections.limit"));
  EXPECT_THAT(connections_error("connections = 1\n", ""), HasSubstr("t.toml:1: connections"));
}

TEST(ConnectionsConfig, ADifferenceIsNamedAndLive) {
  const auto before = parse_connections("", "");
  const auto after = parse_connections("[connections]\nhalf_open = 3\n", "");
  ASSERT_TRUE(before && after);
  const ReloadPlan plan = plan_reload(*before, *after);
  EXPECT_TRUE(plan.is_live());
  EXPECT_EQ(plan.texts(), (std::vector<std::string>{"tenant t: connections.half_open 1024 -> 3"}));
}

TEST(ConnectionsConfig, EveryKeyCanBeSetAndKeepsToItsRange) {
  const auto config = parse_connections("", "");
  ASSERT_TRUE(config);
  for (const Key& key : schema_of<ConnectionsConfig>().keys) {
    const std::string name = std::string("connections.") + key.name;
    const Range range = range_of(key);
    SCOPED_TRACE(name);
    const auto setting = live_setting_of(name);
    ASSERT_TRUE(setting);
    EXPECT_EQ(name_of(*setting), name);
    EXPECT_FALSE(is_of_level(*setting));
    const auto ask = [&](std::uint64_t amount) {
      const AllocationChange change{.tenant = "t", .setting = *setting, .amount = amount};
      return with_changes(*config, std::span(&change, 1));
    };
    const auto changed = ask(range.most);
    ASSERT_TRUE(changed);
    EXPECT_EQ(amount_in(key, &(*changed).tenants[0].connections), range.most);
    EXPECT_FALSE(ask(range.most + 1));
    if (range.least > 0) {
      EXPECT_FALSE(ask(range.least - 1));
    }
  }
}

// --- what guarantees carry

TenantConfig divided_tenant() {
  TenantConfig tenant;
  tenant.pcbs = 40;
  tenant.tvls.assign(4, {.completion_credits = 10});
  tenant.levels = {{.name = "high", .pcbs = 16, .tvls = 2, .shared = false},
                   {.name = "low", .pcbs = 9}};
  return tenant;
}

std::vector<std::uint32_t> carried(const TenantConfig& tenant) {
  std::vector<std::uint32_t> out;
  for (const Carried& part : carried_by(tenant)) out.push_back(part.connections);
  return out;
}

TEST(Carried, NothingAskedForCarriesAll) {
  EXPECT_EQ(carried(divided_tenant()), (std::vector<std::uint32_t>(3, kCarriesAll)));
}

TEST(Carried, ByPcbs) {
  TenantConfig tenant = divided_tenant();
  tenant.connections.pcbs_each = 4;
  EXPECT_EQ(carried(tenant), (std::vector<std::uint32_t>{4, 2, 3}));
  const auto parts = carried_by(tenant);
  EXPECT_EQ(parts[0].level, "high");
  EXPECT_FALSE(parts[0].shares);
  EXPECT_TRUE(parts[1].shares);
  EXPECT_EQ(parts[2].level, "");
}

TEST(Carried, FewerCreditsThanPcbs_CreditsOfOwnTvlsCount) {
  TenantConfig tenant = divided_tenant();
  tenant.connections.pcbs_each = 4;
  for (TvlConfig& tvl : tenant.tvls) tvl.completion_credits = 3;
  EXPECT_EQ(carried(tenant), (std::vector<std::uint32_t>{1, 2, 1}));
}

TEST(Carried, NoGuaranteedCredits_OnlyPcbsCount) {
  TenantConfig tenant = divided_tenant();
  tenant.connections.pcbs_each = 4;
  for (TvlConfig& tvl : tenant.tvls) tvl.completion_credits = 0;
  EXPECT_EQ(carried(tenant), (std::vector<std::uint32_t>{4, 2, 3}));
}

}  // namespace
}  // namespace softhca::configuration
