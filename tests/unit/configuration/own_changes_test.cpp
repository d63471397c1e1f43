// SPDX-License-Identifier: Apache-2.0

// What can be set of a level, and what a tenant may ask for itself (mechanism A7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/configuration/resource_manager/sub_allocation.hpp"

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;
using Changes = std::vector<AllocationChange>;

/// Tenant `sea` with 50 VCBs, 40 PCBs and five TVLs of weights 1 to 5; of these `high` has the
/// first two and `low` the next; and another tenant.
Config divided() {
  Config config;
  config.pools.vcbs = 100;
  config.pools.pcbs = 84;
  config.pools.dedicated_pcbs = 4;
  for (const char* name : {"sea", "sky"}) {
    TenantConfig& tenant = config.tenants.emplace_back();
    tenant.name = name;
    tenant.vcbs = 50;
    tenant.pcbs = 40;
    tenant.limits = totals_of(config.pools);
    for (std::uint32_t weight = 1; weight <= 5; ++weight)
      tenant.tvls.push_back({.weight = weight, .execution_credits = 10, .completion_credits = 20});
    tenant.levels = {{.name = "high", .vcbs = 20, .pcbs = 10, .tvls = 2},
                     {.name = "low", .vcbs = 10, .pcbs = 10, .tvls = 1}};
    tenant.levels[1].is_default = true;
  }
  return config;
}

AllocationChange of(const char* level, LiveSetting setting, std::uint64_t amount) {
  return {.tenant = "sea", .setting = setting, .amount = amount, .level = level};
}

std::vector<std::uint32_t> weights(const Config& config) {
  std::vector<std::uint32_t> out;
  for (const TvlConfig& tvl : config.tenants[0].tvls) out.push_back(tvl.weight);
  return out;
}

AllocationResult own(const Config& config, const Changes& changes) {
  static const Config kGiven = divided();
  return with_own_changes(config, kGiven.tenants[0], changes);
}

TEST(LevelChanges, EachIsSetAloneAndTogether) {
  const auto result = with_changes(
      divided(),
      Changes{of("high", LiveSetting::kPcbs, 30), of("high", LiveSetting::kVcbs, 40),
              of("low", LiveSetting::kShared, 0), of("low", LiveSetting::kExecutionCredits, 7)});
  ASSERT_TRUE(result) << result.refusal().message;
  Config expected = divided();
  expected.tenants[0].levels[0].pcbs = 30;
  expected.tenants[0].levels[0].vcbs = 40;
  expected.tenants[0].levels[1].shared = false;
  expected.tenants[0].tvls[2].execution_credits = 7;
  EXPECT_TRUE(*result == expected);
}

TEST(LevelChanges, TvlsComeFromThoseThatNoLevelHasAndReturn) {
  const auto more = with_changes(divided(), Changes{of("high", LiveSetting::kTvls, 3)});
  ASSERT_TRUE(more);
  EXPECT_THAT(weights(*more), testing::ElementsAre(1, 2, 4, 3, 5));
  const auto less = with_changes(*more, Changes{of("high", LiveSetting::kTvls, 1)});
  ASSERT_TRUE(less);
  EXPECT_EQ((*less).tenants[0].levels[0].tvls, 1u);
  EXPECT_THAT(weights(*less), testing::ElementsAre(1, 3, 5, 2, 4));
  // What one gives back another takes, in either order.
  for (const bool first : {true, false}) {
    Changes changes = {of("high", LiveSetting::kTvls, 0), of("low", LiveSetting::kTvls, 4)};
    if (first) std::swap(changes[0], changes[1]);
    EXPECT_TRUE(with_changes(divided(), changes));
  }
  const auto greedy = with_changes(divided(), Changes{of("low", LiveSetting::kTvls, 4)});
  ASSERT_FALSE(greedy);
  EXPECT_EQ(greedy.refusal().message,
            "tenant sea: level low: asked for 3 more tvls, 2 of the tenant's 5 belong to no level");
  // `low` would have none, and nothing is left undivided.
  const auto none = with_changes(
      divided(), Changes{of("high", LiveSetting::kTvls, 5), of("low", LiveSetting::kTvls, 0)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.refusal().cause, Cause::kBadAmount);
}

TEST(LevelChanges, RefusalsSayWhatWasAskedAndWhatIsUndivided) {
  const auto result = with_changes(divided(), Changes{of("high", LiveSetting::kPcbs, 31)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal().resource, "pcbs");
  EXPECT_EQ(result.refusal().asked, 21u);
  EXPECT_EQ(result.refusal().free, 20u);
  EXPECT_EQ(
      result.refusal().message,
      "tenant sea: level high: asked for 21 more pcbs, 20 of the tenant's 40 belong to no level");
  EXPECT_EQ(with_changes(divided(), Changes{of("deep", LiveSetting::kPcbs, 1)}).refusal().message,
            "tenant sea has no level \"deep\"");
  EXPECT_EQ(with_changes(divided(), Changes{of("high", LiveSetting::kSrqLimit, 1)}).refusal().cause,
            Cause::kNoSuchThing);
  AllocationChange lane = of("low", LiveSetting::kKickList, 5);
  lane.tvl = 1;
  EXPECT_EQ(with_changes(divided(), Changes{lane}).refusal().message,
            "tenant sea: level low has no TVL 1: it has TVLs 0 to 0");
}

TEST(LevelChanges, RatesOfLevelsAreSet) {
  const auto result =
      with_changes(divided(), Changes{of("high", LiveSetting::kRateMessages, 500),
                                      of("high", LiveSetting::kRateBurstMessages, 5)});
  ASSERT_TRUE(result) << result.refusal().message;
  const TenantConfig& tenant = (*result).tenants[0];
  const LevelConfig& high = *find_level(tenant, "high");
  EXPECT_EQ(high.rates.sent.messages_per_second, 500u);
  EXPECT_EQ(high.rates.sent.burst_messages, 5u);
  EXPECT_EQ(high.rates.sent.bytes_per_second, 0u);
  EXPECT_EQ(find_level(tenant, "low")->rates.sent, RateLimits{});
  EXPECT_EQ(tenant.rates.sent, RateLimits{});
  EXPECT_EQ(
      with_changes(divided(), Changes{of("high", LiveSetting::kRateBurstBytes, 0)}).refusal().cause,
      Cause::kBadAmount);
}

TEST(TenantChanges, LimitsRatesAndPolicyAreSet) {
  const auto result = with_changes(
      divided(),
      Changes{of("", limit_of(Kind::kQueuePairs), 7), of("", LiveSetting::kRateBytes, 1u << 30),
              of("", LiveSetting::kRateBurstMessages, 3), of("", LiveSetting::kSrqLimit, 100),
              of("", LiveSetting::kSrqStatistical, 1), of("", LiveSetting::kSrqOnExceed, 3),
              of("", LiveSetting::kSrqOvercommit, 1500)});
  ASSERT_TRUE(result) << result.refusal().message;
  const TenantConfig& tenant = (*result).tenants[0];
  EXPECT_EQ(tenant.limits[Kind::kQueuePairs], 7u);
  EXPECT_EQ(tenant.rates.sent.bytes_per_second, 1u << 30);
  EXPECT_EQ(tenant.rates.sent.burst_messages, 3u);
  EXPECT_EQ(tenant.srq.limits[7], 100u);
  EXPECT_TRUE(tenant.srq.statistical);
  EXPECT_EQ(tenant.srq.on_exceed, OnExceed::kDropConnection);
  EXPECT_EQ(tenant.srq.overcommit, 1.5);
  // Not without a limit, and no limit beyond its pool.
  EXPECT_FALSE(with_changes(divided(), Changes{of("", LiveSetting::kSrqStatistical, 1)}));
  EXPECT_FALSE(with_changes(divided(), Changes{of("", limit_of(Kind::kQueuePairs), 131073)}));
}

TEST(OwnChanges, ATenantMovesWhatItHasAmongItsLevels) {
  EXPECT_TRUE(
      own(divided(), {of("high", LiveSetting::kPcbs, 0), of("low", LiveSetting::kPcbs, 40)}));
  EXPECT_TRUE(
      own(divided(), {of("high", LiveSetting::kTvls, 1), of("low", LiveSetting::kTvls, 3)}));
  // Credits go from one TVL to another; what it has laid down it may take up again.
  const auto less = own(divided(), {of("high", LiveSetting::kExecutionCredits, 0)});
  ASSERT_TRUE(less);
  EXPECT_TRUE(own(*less, {of("low", LiveSetting::kExecutionCredits, 30)}));
  const auto greedy = own(*less, {of("low", LiveSetting::kExecutionCredits, 31)});
  ASSERT_FALSE(greedy);
  EXPECT_EQ(greedy.refusal().message,
            "tenant sea: asked for 21 more execution_credits, 20 of the tenant's 50 are free");
}

TEST(OwnChanges, NothingOfOthersAndNothingBeyondItsTotal) {
  AllocationChange others = of("high", LiveSetting::kPcbs, 1);
  others.tenant = "sky";
  EXPECT_EQ(own(divided(), {others}).refusal().cause, Cause::kNotAllowed);
  others.tenant = "nobody";
  EXPECT_EQ(own(divided(), {others}).refusal().cause, Cause::kNotAllowed);
  for (std::size_t i = 0; i < kLiveSettings; ++i) {
    const auto setting = static_cast<LiveSetting>(i);
    const bool credits =
        setting == LiveSetting::kExecutionCredits || setting == LiveSetting::kCompletionCredits;
    const bool divides = setting == LiveSetting::kVcbs || setting == LiveSetting::kPcbs ||
                         setting == LiveSetting::kTvls;
    const auto whole = own(divided(), {of("", setting, 1)});
    EXPECT_EQ(whole || whole.refusal().cause != Cause::kNotAllowed, credits || is_of_srq(setting))
        << name_of(setting);
    EXPECT_EQ(static_cast<bool>(own(divided(), {of("high", setting, 1)})), credits || divides)
        << name_of(setting);
  }
  for (const std::uint64_t huge :
       {std::uint64_t{51}, std::uint64_t{1} << 20, std::uint64_t{1} << 32, UINT64_MAX})
    for (const LiveSetting setting : {LiveSetting::kVcbs, LiveSetting::kPcbs, LiveSetting::kTvls})
      EXPECT_FALSE(own(divided(), {of("high", setting, huge)})) << huge;
}

/// Any requests, one upon the other: its totals stay, the others' configuration stays, and the
/// levels and what they share add up.
TEST(OwnChanges, AnySequenceKeepsTotalsAndOthers) {
  std::mt19937 random(5);
  Config config = divided();
  unsigned accepted = 0;
  for (int round = 0; round < 10000; ++round) {
    Changes changes;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::uint64_t amount = random() % 30;
      const auto setting = static_cast<LiveSetting>(random() % kLiveSettings);
      AllocationChange change = of(random() % 2 ? "high" : "low", setting, amount);
      if (random() % 20 == 0) change.tenant = "sky";
      if (random() % 3 == 0) change.tvl = random() % 3;
      changes.push_back(change);
    }
    const auto result = own(config, changes);
    if (!result) continue;
    ++accepted;
    const TenantConfig& now = (*result).tenants[0];
    const Held total = held_by(divided().tenants[0]);
    const Held held = held_by(now);
    EXPECT_EQ(held.vcbs, total.vcbs);
    EXPECT_EQ(held.pcbs, total.pcbs);
    EXPECT_EQ(held.tvls, total.tvls);
    EXPECT_LE(held.execution_credits, total.execution_credits);
    EXPECT_LE(held.completion_credits, total.completion_credits);
    EXPECT_LE(now.levels[0].vcbs + now.levels[1].vcbs, now.vcbs);
    EXPECT_LE(now.levels[0].pcbs + now.levels[1].pcbs, now.pcbs);
    EXPECT_LE(now.levels[0].tvls + now.levels[1].tvls, now.tvls.size());
    EXPECT_TRUE((*result).tenants[1] == divided().tenants[1]);
    const auto lanes = weights(*result);
    EXPECT_EQ(std::accumulate(lanes.begin(), lanes.end(), 0u), 15u);
    config = *result;
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace softhca::configuration
