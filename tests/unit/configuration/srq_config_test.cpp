// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse_srq(const std::string& srq) {
  return parse_config("[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n" + srq, "t.toml");
}
std::string srq_error(const std::string& srq) {
  const auto config = parse_srq(srq);
  return config ? "accepted" : config.error().message;
}

TEST(SrqConfig, NothingGivenMeansNoLimit) {
  const auto config = parse_srq("");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->tenants[0].srq, SrqPolicy{});
}

TEST(SrqConfig, EveryKey) {
  const auto config = parse_srq(
      "[tenant.srq]\nlimits = [1, 2, 3, 4, 5, 6, 7, 8]\nkind = \"soft\"\non_exceed = "
      "\"replenish\"\nstatistical = true\novercommit = 1.5\nwatermark = 9\n");
  ASSERT_TRUE(config);
  const SrqPolicy& srq = config->tenants[0].srq;
  EXPECT_THAT(srq.limits, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(srq.kind, LimitKind::kSoft);
  EXPECT_EQ(srq.on_exceed, OnExceed::kReplenish);
  EXPECT_TRUE(srq.statistical);
  EXPECT_EQ(srq.overcommit, 1.5);
  EXPECT_EQ(srq.watermark, 9u);
}

TEST(SrqConfig, WhatItDescribesItReads) {
  const auto config = parse_srq("srq = { limit = 7, on_exceed = \"drop-connection\" }\n");
  ASSERT_TRUE(config);
  const auto again = parse_srq("srq = " + describe(config->tenants[0].srq) + "\n");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->tenants[0].srq, config->tenants[0].srq);
}

const SrqRules& rules_in(const Expected<Config>& config) { return config->tenants[0].srq_rules; }

TEST(SrqConfig, Rules) {
  const auto config = parse_srq(
      "tvls = 2\nlevels = \"default\"\n"
      "[[tenant.srq_rule]]\npeers = [\"10.1.0.0/16\", \"fd00::7\"]\nlevel = \"low\"\nqueue = 3\n"
      "limit = 64\nimportance = 2\nkind = \"soft\"\non_exceed = \"quarantine\"\n"
      "[[tenant.srq_rule]]\nlimit = 0\n");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(rules_in(config).size(), 2u);
  const SrqRule& rule = rules_in(config)[0];
  ASSERT_EQ(rule.peers.size(), 2u);
  EXPECT_TRUE(rule.peers[0].contains(*parse_address("10.1.255.3")));
  EXPECT_FALSE(rule.peers[0].contains(*parse_address("10.2.0.1")));
  EXPECT_FALSE(rule.peers[0].contains(*parse_address("fd00::7")));
  EXPECT_TRUE(rule.peers[1].contains(*parse_address("fd00::7")));
  EXPECT_FALSE(rule.peers[1].contains(*parse_address("fd00::8")));
  EXPECT_EQ(rule.level, "low");
  EXPECT_EQ(rule.queue, 3u);
  EXPECT_EQ(rule.limit, 64u);
  EXPECT_EQ(rule.importance, 2u);
  EXPECT_EQ(rule.kind, LimitKind::kSoft);
  EXPECT_EQ(rule.on_exceed, OnExceed::kQuarantine);
  EXPECT_EQ(rules_in(config)[1], (SrqRule{.limit = 0}));
  EXPECT_TRUE(accounts_wanted({}, rules_in(config)));
  EXPECT_FALSE(accounts_wanted({}, {{.limit = 0}}));
}

TEST(SrqConfig, MistakesInRules) {
  const auto error = [](const std::string& rule) {
    return srq_error("[[tenant.srq_rule]]\n" + rule);
  };
  EXPECT_THAT(error("queue = 3\n"), HasSubstr("sets nothing"));
  EXPECT_THAT(error("limit = 65537\n"), HasSubstr("t.toml:5: tenant.srq_rule.limit:"));
  EXPECT_THAT(error("limit = 1\nimportance = 8\n"), HasSubstr("tenant.srq_rule.importance"));
  EXPECT_THAT(error("limit = 1\npeers = [\"10.0.0.0/33\"]\n"), HasSubstr("is not an address"));
  EXPECT_THAT(error("limit = 1\npeers = []\n"), HasSubstr("is empty"));
  EXPECT_THAT(error("limit = 1\nlevel = \"high\"\n"), HasSubstr("not a level of the tenant"));
  EXPECT_THAT(error("limit = 1\npeer = \"10.0.0.1\"\n"), HasSubstr("tenant.srq_rule.peer"));
  EXPECT_THAT(error("limit = 1\non_exceed = \"drop\"\n"), HasSubstr("\"quarantine\""));
  std::string many;
  for (std::size_t i = 0; i <= kMostSrqRules; ++i) many += "[[tenant.srq_rule]]\nlimit = 1\n";
  EXPECT_THAT(srq_error(many), HasSubstr("more than 64 times"));
}

TEST(SrqConfig, RulesChangeLive) {
  const auto before = parse_srq("[[tenant.srq_rule]]\nlimit = 1\n");
  const auto after = parse_srq("[[tenant.srq_rule]]\npeers = [\"10.0.0.0/8\"]\nlimit = 2\n");
  ASSERT_TRUE(before && after);
  const ReloadPlan plan = plan_reload(*before, *after);
  ASSERT_EQ(plan.differences.size(), 1u);
  EXPECT_TRUE(plan.is_live());
  EXPECT_THAT(plan.texts()[0], HasSubstr("srq_rule [{ peers = [], level = \"\", limit = 1 }] -> "
                                         "[{ peers = [10.0.0.0/8], level = \"\", limit = 2 }]"));
}

TEST(SrqConfig, Mistakes) {
  EXPECT_THAT(srq_error("srq = { limit = 65537 }\n"), HasSubstr("t.toml:4: tenant.srq.limit:"));
  EXPECT_THAT(srq_error("srq = { limits = [1, 2] }\n"), HasSubstr("8 whole numbers"));
  EXPECT_THAT(srq_error("srq = { limits = [1, 2, 3, 4, 5, 6, 7, -8] }\n"),
              HasSubstr("8 whole numbers"));
  EXPECT_THAT(srq_error("srq = { limit = 1, limits = [1, 2, 3, 4, 5, 6, 7, 8] }\n"),
              HasSubstr("only one of them"));
  EXPECT_THAT(srq_error("srq = { kind = \"firm\" }\n"), HasSubstr("\"soft\" or \"hard\""));
  EXPECT_THAT(srq_error("srq = { on_exceed = \"drop\" }\n"), HasSubstr("drop-connection"));
  EXPECT_THAT(srq_error("srq = { overcommit = 0.5 }\n"), HasSubstr("tenant.srq.overcommit"));
  EXPECT_THAT(srq_error("srq = { statistical = true }\n"), HasSubstr("needs a limit"));
  EXPECT_THAT(srq_error("srq = { limitt = 1 }\n"), HasSubstr("tenant.srq.limitt"));
  EXPECT_THAT(srq_error("srq = 7\n"), HasSubstr("must be a table"));
}

TEST(SrqConfig, AReloadShowsAndAllowsIt) {
  const auto before = parse_srq("");
  const auto after = parse_srq("srq = { limit = 7 }\n");
  ASSERT_TRUE(before && after);
  const ReloadPlan plan = plan_reload(*before, *after);
  ASSERT_EQ(plan.differences.size(), 1u);
  EXPECT_EQ(plan.differences[0].key, "srq");
  EXPECT_TRUE(plan.is_live());
  EXPECT_THAT(plan.differences[0].to, HasSubstr("limits = [7, 7"));
}

}  // namespace
}  // namespace softhca::configuration
