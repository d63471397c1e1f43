// SPDX-License-Identifier: Apache-2.0

// The amounts that follow from `share` and `class`: in a file, by a request, and on demand.
#include "daemon/configuration/tenant_amounts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/resource_manager/on_demand.hpp"
#include "daemon/configuration/resource_manager/overlay.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

/// Pools of 1000 VCBs, 1000 PCBs without the dedicated ones, 400 execution and 800 completion
/// credits.
const std::string kPools =
    "[pools]\nvcbs = 1000\npcbs = 1010\ndedicated_pcbs = 10\nexecution_credits = 400\n"
    "completion_credits = 800\nqueue_pairs = 1000\n";

std::string tenant_of(const char* name, const char* address, const std::string& keys) {
  return std::string("[[tenant]]\nname = \"") + name + "\"\naddresses = [\"" + address + "\"]\n" +
         keys;
}

/// Returns the configuration with tenants `a` and `b`, or the errors of the file.
Expected<Config> with_two(const std::string& of_a, const std::string& of_b = "") {
  return parse_config(
      kPools + tenant_of("a", "198.18.0.1", of_a) + tenant_of("b", "198.18.0.2", of_b), "t.toml");
}
Config two(const std::string& of_a, const std::string& of_b = "") {
  const auto config = with_two(of_a, of_b);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}

AllocationChange set_share(const char* tenant, std::uint32_t tenths) {
  return {.tenant = tenant, .setting = LiveSetting::kShare, .amount = tenths};
}
AllocationChange set_class(const char* tenant, Workload workload) {
  return {.tenant = tenant,
          .setting = LiveSetting::kClass,
          .amount = static_cast<std::uint64_t>(workload)};
}
/// Returns tenant `a` after the changes.
TenantConfig changed(const Config& config, const std::vector<AllocationChange>& changes) {
  const auto result = with_changes(config, changes);
  EXPECT_TRUE(result) << result.refusal().message;
  return result ? (*result).tenants[0] : TenantConfig{};
}

TEST(TenantAmounts, Share_GivesThatPartOfEachPool) {
  const TenantConfig a = two("share = \"50%\"\n").tenants[0];
  EXPECT_EQ(a.vcbs, 500u);
  EXPECT_EQ(a.pcbs, 500u) << "the dedicated PCBs are not divided";
  EXPECT_EQ(a.vcbs_per_process, TenantConfig{}.vcbs_per_process);
  EXPECT_TRUE(a.lends);
  EXPECT_FALSE(a.priority);
  EXPECT_EQ(a.tvls, (std::vector<TvlConfig>{
                        {.weight = 10, .execution_credits = 200, .completion_credits = 400}}));
}

TEST(TenantAmounts, NoShareAndNoClass_AreTheFormerDefaults) {
  TenantConfig expected;
  expected.name = "b";
  expected.addresses = {*parse_address("198.18.0.2")};
  expected.tvls.resize(1);
  const Config config = two("");
  expected.limits = limits_of({}, kWhole, 2, config.pools);
  EXPECT_TRUE(config.tenants[1] == expected);
}

TEST(TenantAmounts, Latency_HasFourShortLanesAndItsVcbs) {
  const TenantConfig a = two("share = \"50%\"\nclass = \"latency\"\n").tenants[0];
  EXPECT_EQ(a.vcbs, 500u);
  EXPECT_EQ(a.vcbs_per_process, kMaxVcbsPerProcess);
  EXPECT_FALSE(a.lends);
  EXPECT_EQ(a.priority, 5);
  EXPECT_EQ(
      a.tvls,
      std::vector<TvlConfig>(
          4, {.weight = 10, .execution_credits = 50, .completion_credits = 100, .kick_list = 64}));
}

TEST(TenantAmounts, Bulk_LeavesTheVcbsToOthersAndHasAllCreditsOnOneLane) {
  const TenantConfig a = two("share = \"50%\"\nclass = \"bulk\"\n").tenants[0];
  EXPECT_EQ(a.vcbs, 0u);
  EXPECT_EQ(a.vcbs_per_process, 4u);
  EXPECT_EQ(a.pcbs, 500u);
  EXPECT_EQ(a.priority, 1);
  EXPECT_EQ(a.tvls, (std::vector<TvlConfig>{
                        {.weight = 10, .execution_credits = 200, .completion_credits = 400}}));
}

TEST(TenantAmounts, GivenAmounts_TakePrecedence) {
  const TenantConfig a = two("share = \"50%\"\nclass = \"latency\"\npcbs = 7\ntvls = 2\n"
                             "completion_credits = 3\nlends = true\npriority = 0\n"
                             "queue_pairs = 9\n")
                             .tenants[0];
  EXPECT_EQ(a.pcbs, 7u);
  EXPECT_EQ(a.vcbs, 500u);
  EXPECT_TRUE(a.lends);
  EXPECT_EQ(a.priority, 0);
  EXPECT_EQ(a.limits[Kind::kQueuePairs], 9u);
  EXPECT_EQ(
      a.tvls,
      std::vector<TvlConfig>(
          2, {.weight = 10, .execution_credits = 100, .completion_credits = 3, .kick_list = 64}));
}

TEST(TenantAmounts, TvlsOneByOne_DivideTheCredits) {
  const TenantConfig a =
      two("share = \"50%\"\n[[tenant.tvl]]\n[[tenant.tvl]]\nexecution_credits = 9\n").tenants[0];
  ASSERT_EQ(a.tvls.size(), 2u);
  EXPECT_EQ(a.tvls[0].execution_credits, 100u);
  EXPECT_EQ(a.tvls[1].execution_credits, 9u);
  EXPECT_EQ(a.tvls[1].completion_credits, 200u);
}

TEST(TenantAmounts, SmallShare_HasOneCreditForEachTvl) {
  const TenantConfig a = two("share = \"0.1%\"\ntvls = 4\n").tenants[0];
  EXPECT_EQ(a.tvls, std::vector<TvlConfig>(
                        4, {.weight = 1, .execution_credits = 1, .completion_credits = 1}));
}

TEST(TenantAmounts, Limits_AreTheShareAndAnEqualPartOfTheRest) {
  const Config config = two("share = \"60%\"\n", "share = \"20%\"\n");
  EXPECT_EQ(config.tenants[0].limits[Kind::kQueuePairs], 700u);
  EXPECT_EQ(config.tenants[1].limits[Kind::kQueuePairs], 300u);
}

TEST(TenantAmounts, SmallestDefaultLimit_IsOne) {
  const Config config = two("share = \"99.9%\"\n");
  EXPECT_EQ(config.tenants[0].limits[Kind::kQueuePairs], 999u);
  EXPECT_EQ(config.tenants[1].limits[Kind::kQueuePairs], 1u);
}

TEST(TenantAmounts, SharesLeaveNothing_TenantAndTemplateWithoutShareAreNamed) {
  const std::string all = kPools + tenant_of("a", "198.18.0.1", "share = \"60%\"\n") +
                          tenant_of("b", "198.18.0.2", "share = \"40%\"\n");
  EXPECT_TRUE(parse_config(all, "t.toml"));
  const auto tenant = parse_config(all + tenant_of("c", "198.18.0.3", ""), "t.toml");
  ASSERT_FALSE(tenant);
  EXPECT_EQ(tenant.error().message,
            "t.toml:16: tenant.share: the shares leave nothing for tenant c; give it a share or "
            "lower another");
  const auto of = parse_config(all + "[[template]]\nname = \"t\"\n", "t.toml");
  ASSERT_FALSE(of);
  EXPECT_THAT(of.error().message, HasSubstr("the shares leave nothing for template t;"));
  EXPECT_TRUE(parse_config(all + "[[template]]\nname = \"t\"\nshare = \"5%\"\n", "t.toml"));
}

TEST(TenantAmounts, TemplateWithShare_HasItAsLimitAndTakesNothingFromTheRest) {
  const auto config = parse_config(kPools + tenant_of("a", "198.18.0.1", "share = \"50%\"\n") +
                                       tenant_of("b", "198.18.0.2", "") +
                                       "[[template]]\nname = \"t\"\nshare = \"20%\"\n",
                                   "t.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->templates[0].limits[Kind::kQueuePairs], 200u);
  EXPECT_EQ(config->tenants[0].limits[Kind::kQueuePairs], 750u);
  EXPECT_EQ(config->tenants[1].limits[Kind::kQueuePairs], 250u);
}

TEST(TenantAmounts, DefaultLevels_DivideWhatFollows) {
  const TenantConfig a =
      two("share = \"50%\"\nclass = \"latency\"\nlevels = \"default\"\n").tenants[0];
  ASSERT_EQ(a.levels.size(), 2u);
  EXPECT_EQ(a.levels[0].pcbs, 125u);
  EXPECT_EQ(a.levels[0].tvls, 2u);
  EXPECT_EQ(a.tvls[0].weight, 2u);
  EXPECT_EQ(a.tvls[3].weight, 10u);
}

TEST(TenantAmounts, MistakesInAFile_AreNamed) {
  EXPECT_THAT(with_two("share = \"50\"\n").error().message,
              HasSubstr("t.toml:11: tenant.share: must be from \"0%\" to \"100%\""));
  EXPECT_THAT(with_two("share = 0.5\n").error().message,
              HasSubstr("tenant.share: must be a string"));
  EXPECT_THAT(with_two("class = \"fast\"\n").error().message,
              HasSubstr("must be \"standard\", \"latency\" or \"bulk\""));
  EXPECT_THAT(with_two("share = \"60%\"\n", "share = \"40.5%\"\n").error().message,
              testing::StrEq("t.toml:15: tenant.share: the shares of the tenants add up to 100.5% "
                             "(a 60%, b 40.5%), at most 100% is possible; lower one"));
  EXPECT_THAT(with_two("share = \"60%\"\n", "pcbs = 500\n").error().message,
              HasSubstr("guarantees 500, but only 400 of pools.pcbs = 1010, less "
                        "pools.dedicated_pcbs = 10, are left"));
}

// --- requests

TEST(TenantAmounts, ChangedShareAndClass_GiveWhatTheFileWouldGive) {
  const Config config = two("");
  for (const unsigned tenths : {0u, 1u, 250u, 990u})
    for (const Workload workload : {Workload::kStandard, Workload::kLatency, Workload::kBulk}) {
      const std::string word(kWorkloadWords[static_cast<std::size_t>(workload)]);
      const TenantConfig expected =
          two("share = \"" + to_text(Share{tenths}) + "\"\nclass = \"" + word + "\"\n").tenants[0];
      TenantConfig a = changed(config, {set_share("a", tenths), set_class("a", workload)});
      a.limits = expected.limits;  // a request leaves the limits as they are
      EXPECT_TRUE(a == expected) << word << ' ' << tenths;
    }
}

TEST(TenantAmounts, ChangedShare_LeavesWhatIsGiven) {
  const Config config = two("share = \"50%\"\npcbs = 7\ncompletion_credits = 3\n");
  const TenantConfig a = changed(config, {set_share("a", 200)});
  EXPECT_EQ(a.vcbs, 200u);
  EXPECT_EQ(a.pcbs, 7u);
  EXPECT_EQ(
      a.tvls,
      (std::vector<TvlConfig>{{.weight = 4, .execution_credits = 80, .completion_credits = 3}}));
}

TEST(TenantAmounts, GivenAmountThatEqualsTheFollowingOne_Stays) {
  const Config config = two("share = \"50%\"\npcbs = 500\nweight = 10\n");
  const AllocationChange vcbs{.tenant = "a", .setting = LiveSetting::kVcbs, .amount = 500};
  const auto given = with_changes(config, std::span(&vcbs, 1));
  ASSERT_TRUE(given);
  const TenantConfig a = changed(*given, {set_share("a", 200)});
  EXPECT_EQ(a.pcbs, 500u);
  EXPECT_EQ(a.vcbs, 500u);
  EXPECT_EQ(a.tvls[0].weight, 10u);
  EXPECT_EQ(a.tvls[0].execution_credits, 80u);
}

TEST(TenantAmounts, ChangedShareWithDefaultLevels_KeepsTheRatioOfWeights) {
  const TenantConfig a = changed(
      two("share = \"50%\"\nclass = \"latency\"\nlevels = \"default\"\n"), {set_share("a", 900)});
  EXPECT_EQ(a.tvls[0].weight, 4u);
  EXPECT_EQ(a.tvls[3].weight, 18u);
}

/// Returns the layers in which tenant `a` has made `division`.
Overlaid laid_with(const Config& given, const SubAllocation& division) {
  Overlaid laid = lay_over(given, {}, {}, {{"a", std::make_shared<const SubAllocation>(division)}});
  EXPECT_TRUE(laid.undivided.empty());
  return laid;
}
/// Makes the changes while tenant `a` has `division`.
AllocationResult lay(Overlaid& laid, const std::vector<AllocationChange>& changes,
                     const SubAllocation& division) {
  return lay_changes(laid, changes, {{"a", std::make_shared<const SubAllocation>(division)}});
}
AllocationChange own_credits(std::uint32_t amount, std::uint32_t tvl) {
  return {.tenant = "a", .setting = LiveSetting::kExecutionCredits, .amount = amount, .tvl = tvl};
}

TEST(TenantAmounts, LowerShare_DropsOwnCreditsThatNoLongerFit) {
  const SubAllocation own{.levels = {}, .rules = {}, .changes = {own_credits(199, 0)}};
  Overlaid laid = laid_with(two("share = \"50%\"\n"), own);
  ASSERT_EQ(laid.in_force.tenants[0].tvls[0].execution_credits, 199u);
  const auto made = lay(laid, {set_share("a", 200), set_share("b", 800)}, own);
  ASSERT_TRUE(made) << made.refusal().message;
  EXPECT_EQ((*made).tenants[0].tvls[0].execution_credits, 80u);
  EXPECT_EQ((*made).tenants[1].tvls[0].execution_credits, 320u);
  EXPECT_EQ(laid.given.tenants[0].tvls[0].execution_credits, 80u);
  EXPECT_TRUE(laid.undivided.contains("a"));
}

TEST(TenantAmounts, HigherShare_KeepsOwnCreditsAndFollowsElsewhere) {
  const SubAllocation own{.levels = {}, .rules = {}, .changes = {own_credits(90, 0)}};
  Overlaid laid = laid_with(two("share = \"50%\"\ntvls = 2\n"), own);
  const auto made = lay(laid, {set_share("a", 600)}, own);
  ASSERT_TRUE(made) << made.refusal().message;
  EXPECT_EQ((*made).tenants[0].tvls[0].execution_credits, 90u);
  EXPECT_EQ((*made).tenants[0].tvls[1].execution_credits, 120u);
  EXPECT_TRUE(laid.undivided.empty());
}

TEST(TenantAmounts, OwnLevels_LeaveTheNumberOfTvlsToTheClass) {
  LevelConfig level;
  level.name = "mine";
  level.own = level.is_default = true;
  const SubAllocation own{.levels = {level}, .rules = {}, .changes = {}};
  Overlaid laid = laid_with(two("share = \"50%\"\n"), own);
  const auto made = lay(laid, {set_class("a", Workload::kLatency)}, own);
  ASSERT_TRUE(made) << made.refusal().message;
  EXPECT_EQ((*made).tenants[0].tvls.size(), 4u);
  EXPECT_EQ((*made).tenants[0].levels.size(), 1u);
}

TEST(TenantAmounts, AddedTvls_CopyWhatTheOperatorHasGiven) {
  const SubAllocation own{.levels = {}, .rules = {}, .changes = {own_credits(10, 1)}};
  Overlaid laid = laid_with(two("share = \"50%\"\ntvls = 2\n"), own);
  const auto made = lay(laid, {{.tenant = "a", .setting = LiveSetting::kTvls, .amount = 4}}, own);
  ASSERT_TRUE(made) << made.refusal().message;
  const auto& tvls = (*made).tenants[0].tvls;
  ASSERT_EQ(tvls.size(), 4u);
  EXPECT_EQ(tvls[1].execution_credits, 10u);
  EXPECT_EQ(tvls[0].execution_credits, 50u);
  EXPECT_EQ(tvls[3].execution_credits, 50u);
}

TEST(TenantAmounts, SavedRequests_GiveTheSameInForceAndAfterARestart) {
  const Config file = two("share = \"50%\"\nclass = \"latency\"\nlevels = \"default\"\n");
  Overlaid laid = lay_over(file, {}, {}, {});
  std::vector<SavedRequest> saved;
  for (const AllocationChange& change :
       {AllocationChange{.tenant = "a", .setting = LiveSetting::kPcbs, .amount = 500},
        set_share("a", 200),
        AllocationChange{.tenant = "a", .setting = LiveSetting::kTvls, .amount = 6},
        set_class("a", Workload::kBulk), set_share("a", 300)}) {
    const std::vector<AllocationChange> changes = {change};
    supersede(saved, changes);
    saved.push_back({.number = saved.size() + 1, .changes = changes});
    ASSERT_TRUE(lay_changes(laid, changes, {}));
  }
  EXPECT_EQ(laid.in_force.tenants[0].pcbs, 500u);
  const Overlaid restarted = lay_over(file, {}, saved, {});
  EXPECT_TRUE(restarted.left_out.empty());
  EXPECT_TRUE(restarted.in_force.tenants == laid.in_force.tenants);
}

TEST(TenantAmounts, ShareAndAmountInOneRequest_TheAmountHolds) {
  const TenantConfig a = changed(
      two(""), {{.tenant = "a", .setting = LiveSetting::kPcbs, .amount = 7}, set_share("a", 500)});
  EXPECT_EQ(a.pcbs, 7u);
  EXPECT_EQ(a.vcbs, 500u);
}

TEST(TenantAmounts, ChangedNumberOfTvls_DividesTheCreditsAgain) {
  const TenantConfig a = changed(two("share = \"50%\"\n"),
                                 {{.tenant = "a", .setting = LiveSetting::kTvls, .amount = 4}});
  EXPECT_EQ(a.tvls, std::vector<TvlConfig>(
                        4, {.weight = 10, .execution_credits = 50, .completion_credits = 100}));
}

TEST(TenantAmounts, TenantWithLevels_KeepsItsTvlsAndTakesFromItsLevels) {
  const Config config =
      two("share = \"50%\"\ntvls = 2\n[[tenant.level]]\nname = \"l\"\n"
          "pcbs = 400\ntvls = 1\n");
  const TenantConfig a = changed(config, {set_share("a", 200), set_class("a", Workload::kLatency)});
  EXPECT_EQ(a.pcbs, 200u);
  EXPECT_EQ(a.levels[0].pcbs, 200u);
  EXPECT_EQ(a.tvls.size(), 2u);
  EXPECT_EQ(a.tvls[1].execution_credits, 40u);
}

TEST(TenantAmounts, SharesAboveAll_AreRefused) {
  const Config config = two("share = \"50%\"\n", "share = \"30%\"\n");
  const auto refused = with_changes(config, std::vector{set_share("b", 501)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal().cause, AllocationRefusal::Cause::kNotFree);
  EXPECT_EQ(refused.refusal().resource, "share");
  EXPECT_EQ(
      refused.refusal().message,
      "the shares of the tenants add up to 100.1% (a 50%, b 50.1%), at most 100% is possible; "
      "lower one");
  EXPECT_TRUE(with_changes(config, std::vector{set_share("b", 501), set_share("a", 499)}));
}

TEST(TenantAmounts, ShareOfOneTvlOrLevel_IsRefused) {
  const Config config =
      two("pcbs = 4\ntvls = 2\n[[tenant.level]]\nname = \"l\"\npcbs = 4\ntvls = 1\n");
  AllocationChange change = set_share("a", 100);
  change.tvl = 0;
  EXPECT_FALSE(with_changes(config, std::span(&change, 1)));
  change.tvl.reset();
  change.level = "l";
  EXPECT_FALSE(with_changes(config, std::span(&change, 1)));
}

TEST(TenantAmounts, TenantOnDemand_TakesShareAndClassOfTheRequest) {
  const auto config = parse_config(
      kPools + tenant_of("a", "198.18.0.1", "share = \"50%\"\n") +
          "[[template]]\nname = \"t\"\naddresses = [\"198.18.1.1\"]\nshare = \"20%\"\npcbs = 7\n"
          "memory_regions = 9\n",
      "t.toml");
  ASSERT_TRUE(config) << config.error().message;
  TenantRequest request{.name = "web", .template_name = "t"};
  const auto as_template = with_tenant(*config, request);
  ASSERT_TRUE(as_template);
  EXPECT_EQ((*as_template).tenants[1].vcbs, 200u);
  EXPECT_EQ((*as_template).tenants[1].limits[Kind::kQueuePairs], 200u);
  request.share = Share{400};
  request.workload = Workload::kLatency;
  const auto made = with_tenant(*config, request);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made).tenants[1].vcbs, 400u);
  EXPECT_EQ((*made).tenants[1].pcbs, 7u);
  EXPECT_EQ((*made).tenants[1].tvls.size(), 4u);
  EXPECT_EQ((*made).tenants[1].limits[Kind::kQueuePairs], 400u);
  EXPECT_EQ((*made).tenants[1].limits[Kind::kMemoryRegions], 9u);
  request.share = Share{501};
  const auto refused = with_tenant(*config, request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.refusal().message, HasSubstr("add up to 100.1% (a 50%, web 50.1%)"));
}

}  // namespace
}  // namespace softhca::configuration
