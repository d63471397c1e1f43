#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/resource/config.hpp"
#include "daemon/resource/reload_plan.hpp"
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
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

TEST(SrqConfig, Mistakes) {
  EXPECT_THAT(srq_error("srq = { limit = 65537 }\n"), HasSubstr("t.toml:4: tenant.srq.limit:"));
  EXPECT_THAT(srq_error("srq = { limits = [1, 2] }\n"), HasSubstr("8 whole numbers"));
  EXPECT_THAT(srq_error("srq = { limits = [1, 2, 3, 4, 5, 6, 7, -8] }\n"),
              HasSubstr("8 whole numbers"));
  EXPECT_THAT(srq_error("srq = { limit = 1, limits = [1, 2, 3, 4, 5, 6, 7, 8] }\n"),
              HasSubstr("one of them"));
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
}  // namespace softhca::resource
