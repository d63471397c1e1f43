// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/resource_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;

/// Tenants `weather` and `ocean` with 25 and 15 of 50 VCBs, 20 and 12 of 40 PCBs, two TVLs each.
Config two() {
  Config config;
  config.pools.vcbs = 50;
  config.pools.pcbs = 44;
  config.pools.dedicated_pcbs = 4;
  config.pools.tvls = 6;
  config.pools.execution_credits = 16;
  config.pools.completion_credits = 16;
  const auto add = [&](const char* name, std::uint32_t vcbs, std::uint32_t pcbs) {
    TenantConfig& tenant = config.tenants.emplace_back();
    tenant.name = name;
    tenant.vcbs = vcbs;
    tenant.pcbs = pcbs;
    tenant.tvls.assign(2, {.execution_credits = 3, .completion_credits = 3});
  };
  add("weather", 25, 20);
  add("ocean", 15, 12);
  return config;
}

AllocationResult ask(const std::vector<AllocationChange>& changes, const Held& held = {}) {
  return with_changes(two(), changes, held);
}

TEST(ResourceManager, ChangesWhatIsAskedAndNothingElse) {
  const auto result = ask({{"weather", LiveSetting::kVcbs, 35, {}},
                           {"ocean", LiveSetting::kExecutionCredits, 5, 1},
                           {"ocean", LiveSetting::kKickList, 9, {}}});
  ASSERT_TRUE(result);
  Config expected = two();
  expected.tenants[0].vcbs = 35;
  expected.tenants[1].tvls[1].execution_credits = 5;
  for (TvlConfig& tvl : expected.tenants[1].tvls) tvl.kick_list = 9;
  EXPECT_TRUE(*result == expected);
}

TEST(ResourceManager, SaysHowMuchWasAskedAndHowMuchIsFree) {
  const auto result = ask({{"ocean", LiveSetting::kPcbs, 21, {}}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal().cause, Cause::kNotFree);
  EXPECT_EQ(result.refusal().resource, "pcbs");
  EXPECT_EQ(result.refusal().asked, 9u);
  EXPECT_EQ(result.refusal().free, 8u);
  EXPECT_EQ(result.refusal().message,
            "tenant ocean: asked for 9 more pcbs, 8 of pools.pcbs - pools.dedicated_pcbs = 40 are "
            "unallocated");
}

TEST(ResourceManager, WhatOneGivesBackAnotherMayTakeInAnyOrder) {
  std::vector<AllocationChange> changes = {{"ocean", LiveSetting::kVcbs, 35, {}},
                                           {"weather", LiveSetting::kVcbs, 15, {}}};
  EXPECT_TRUE(ask(changes));
  std::swap(changes[0], changes[1]);
  EXPECT_TRUE(ask(changes));
  changes.pop_back();
  EXPECT_TRUE(ask(changes));  // the smaller one alone
}

TEST(ResourceManager, WhatIsHeldByRemovedTenantsIsNotFree) {
  EXPECT_TRUE(ask({{"ocean", LiveSetting::kVcbs, 25, {}}}));
  const auto result = ask({{"ocean", LiveSetting::kVcbs, 25, {}}}, {.vcbs = 4});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal().free, 6u);
  EXPECT_EQ(result.refusal().message,
            "tenant ocean: asked for 10 more vcbs, 6 of pools.vcbs = 50 are unallocated; programs "
            "of removed tenants and levels still hold 4");
}

TEST(ResourceManager, RefusesWhatItDoesNotKnow) {
  const auto nobody = ask({{"sun", LiveSetting::kVcbs, 1, {}}});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.refusal().cause, Cause::kNoSuchThing);
  EXPECT_EQ(nobody.refusal().message, "no such tenant: \"sun\"");
  const auto lane = ask({{"ocean", LiveSetting::kKickList, 1, 2}});
  ASSERT_FALSE(lane);
  EXPECT_EQ(lane.refusal().message, "tenant ocean has no TVL 2: it has TVLs 0 to 1");
  const auto none = ask({{"ocean", LiveSetting::kTvls, 0, {}}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.refusal().message, "tenant ocean: tvls = 0; a tenant needs at least 1");
  EXPECT_FALSE(ask({{"ocean", LiveSetting::kVcbs, UINT64_MAX, {}}}));
  EXPECT_FALSE(ask({{"ocean", LiveSetting::kVcbs, 1, 0}}));
}

TEST(ResourceManager, TvlsComeWithoutCreditsAndMayBeGivenSomeInTheSameRequest) {
  const auto result =
      ask({{"ocean", LiveSetting::kCompletionCredits, 4, 3}, {"ocean", LiveSetting::kTvls, 4, {}}});
  ASSERT_TRUE(result);
  const auto& tvls = (*result).tenants[1].tvls;
  ASSERT_EQ(tvls.size(), 4u);
  EXPECT_EQ(tvls[2].completion_credits, 0u);
  EXPECT_EQ(tvls[3].completion_credits, 4u);
  EXPECT_EQ(ask({{"ocean", LiveSetting::kTvls, 5, {}}}).refusal().free, 2u);
}

TEST(ResourceManager, AHardCapKeepsACredit) {
  Config config = two();
  config.tenants[0].shared = false;
  const std::vector<AllocationChange> changes = {{"weather", LiveSetting::kExecutionCredits, 0, 1}};
  const auto result = with_changes(config, changes);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal().message,
            "tenant weather: TVL 1 would have no execution_credits and cannot share any (shared = "
            "false), so it could never send");
}

TEST(ResourceManager, AShrinkingTotalIsTakenFromWhatLevelsShareThenFromTheDefaultLevel) {
  Config config = two();
  config.tenants[0].levels = {{.name = "alerts", .vcbs = 15}, {.name = "other", .vcbs = 8}};
  config.tenants[0].levels[1].is_default = true;
  const auto vcbs = [&](std::uint32_t total) {
    const std::vector<AllocationChange> changes = {{"weather", LiveSetting::kVcbs, total, {}}};
    const auto result = with_changes(config, changes);
    EXPECT_TRUE(result);
    const auto& levels = (*result).tenants[0].levels;
    return std::pair(levels[0].vcbs, levels[1].vcbs);
  };
  EXPECT_EQ(vcbs(30), std::pair(15u, 8u));  // an increase is shared
  EXPECT_EQ(vcbs(23), std::pair(15u, 8u));
  EXPECT_EQ(vcbs(20), std::pair(15u, 5u));
  EXPECT_EQ(vcbs(10), std::pair(10u, 0u));
}

TEST(ResourceManager, NamesComeBack) {
  for (std::size_t i = 0; i < kLiveSettings; ++i) {
    const auto setting = static_cast<LiveSetting>(i);
    EXPECT_EQ(live_setting_of(name_of(setting)), setting);
  }
  EXPECT_FALSE(live_setting_of("qps"));
}

/// Sums of a pool against a request, thousands of times: accepted exactly when everything fits, in
/// whichever order, and then nothing is over-committed.
TEST(ResourceManager, AcceptsExactlyWhatFits) {
  std::mt19937 random(3);
  Config config = two();
  for (int round = 0; round < 5000; ++round) {
    const Held held{.vcbs = random() % 8};
    std::vector<AllocationChange> changes = {{"weather", LiveSetting::kVcbs, random() % 60, {}},
                                             {"ocean", LiveSetting::kVcbs, random() % 60, {}}};
    const bool fits = changes[0].amount + changes[1].amount + held.vcbs <= config.pools.vcbs ||
                      (changes[0].amount <= config.tenants[0].vcbs &&
                       changes[1].amount <= config.tenants[1].vcbs);
    if (random() % 2 != 0) std::swap(changes[0], changes[1]);
    const auto result = with_changes(config, changes, held);
    ASSERT_EQ(static_cast<bool>(result), fits);
    if (result) config = *result;
  }
}

}  // namespace
}  // namespace softhca::configuration
