// SPDX-License-Identifier: Apache-2.0

// What lies over the configuration file.
#include "daemon/configuration/resource_manager/overlay.hpp"

#include <gtest/gtest.h>

namespace softhca::configuration {
namespace {

/// The pool has 100 PCBs; `sea` and `sky` have 40 each. The levels `high` and `low` of `sea` have
/// 10 each.
Config under() {
  Config config;
  config.pools.pcbs = 104;
  config.pools.dedicated_pcbs = 4;
  for (const char* name : {"sea", "sky"}) {
    TenantConfig& tenant = config.tenants.emplace_back();
    tenant.name = name;
    tenant.pcbs = 40;
    tenant.tvls.resize(2);
  }
  config.tenants[0].levels = {{.name = "high", .pcbs = 10}, {.name = "low", .pcbs = 10}};
  config.tenants[0].levels[1].is_default = true;
  return config;
}

AllocationChange pcbs(const char* tenant, std::uint64_t amount, const char* level = "") {
  return {.tenant = tenant, .setting = LiveSetting::kPcbs, .amount = amount, .level = level};
}

SubAllocations of_sea(std::vector<AllocationChange> changes) {
  return {
      {"sea", std::make_shared<const SubAllocation>(SubAllocation{.changes = std::move(changes)})}};
}

std::vector<std::uint32_t> amounts(const Config& config) {
  const TenantConfig& sea = config.tenants[0];
  return {sea.pcbs, sea.levels[0].pcbs, sea.levels[1].pcbs, config.tenants[1].pcbs};
}
using Amounts4 = std::vector<std::uint32_t>;

TEST(Overlay, NothingSavedIsTheFile) {
  const Overlaid laid = lay_over(under(), {}, {}, {});
  EXPECT_EQ(laid.in_force, under());
  EXPECT_EQ(laid.given, under());
}

TEST(Overlay, RequestsAreMadeInTheirOrder) {
  // The total shrinks after the level has grown, and takes from it.
  const Overlaid laid =
      lay_over(under(), {}, {{1, {pcbs("sea", 30, "low")}}, {2, {pcbs("sea", 20)}}}, {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 40}));
}

TEST(Overlay, WhatALaterOneGivesBackAnEarlierOneMayTake) {
  const Overlaid laid = lay_over(under(), {}, {{1, {pcbs("sky", 80)}}, {2, {pcbs("sea", 20)}}}, {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 80}));
}

TEST(Overlay, RequestsThatFitOnlyTogetherAreMadeTogether) {
  // Each of them takes what the other one gives back.
  Config file = under();
  file.pools.vcbs = 100;
  file.tenants[0].vcbs = file.tenants[1].vcbs = 40;
  const auto vcbs = [](const char* tenant, std::uint64_t amount) {
    return AllocationChange{.tenant = tenant, .setting = LiveSetting::kVcbs, .amount = amount};
  };
  const Overlaid laid = lay_over(
      file, {}, {{1, {pcbs("sky", 80), vcbs("sky", 20)}}, {2, {pcbs("sea", 20), vcbs("sea", 80)}}},
      {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 80}));
  EXPECT_EQ(laid.in_force.tenants[0].vcbs, 80u);
}

TEST(Overlay, WhatDoesNotFitIsLeftOutWholeAndTheRestIsMade) {
  const Overlaid laid = lay_over(
      under(), {},
      {{1, {pcbs("sea", 30), pcbs("sky", 90)}}, {2, {pcbs("nobody", 1)}}, {3, {pcbs("sea", 50)}}},
      {});
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{50, 10, 10, 40}));
  ASSERT_EQ(laid.left_out.size(), 2u);
  EXPECT_EQ(laid.left_out.at(1).resource, "pcbs");
  EXPECT_EQ(laid.left_out.at(1).free, 30u);
  EXPECT_EQ(laid.left_out.at(2).cause, AllocationRefusal::Cause::kNoSuchThing);
}

/// Tenants on demand have 30 PCBs and two TVLs.
Config under_template() {
  Config config = under();
  TenantConfig& small = config.templates.emplace_back();
  small.name = "small";
  small.pcbs = 30;
  small.tvls.resize(2);
  return config;
}
TenantOnDemand demanded(const char* name, const char* address) {
  return {
      .request = {.name = name, .template_name = "small", .addresses = {*parse_address(address)}},
      .saved = true};
}
std::vector<std::string> names_in(const Config& config) {
  std::vector<std::string> names;
  for (const TenantConfig& tenant : config.tenants) names.push_back(tenant.name);
  return names;
}
using Names = std::vector<std::string>;

TEST(Overlay, TenantsOnDemandComeBeforeWhatIsSaidOfThem) {
  Config file = under_template();
  file.tenants[0].pcbs = 20;
  const Overlaid laid =
      lay_over(file, {demanded("web", "198.18.1.1")}, {{1, {pcbs("web", 35)}}}, {});
  EXPECT_TRUE(laid.absent.empty() && laid.left_out.empty());
  EXPECT_EQ(names_in(laid.given), (Names{"sea", "sky", "web"}));
  EXPECT_EQ(laid.in_force.tenants[2].pcbs, 35u);
}

TEST(Overlay, ATenantOnDemandMayHaveItsRoomFromWhatIsSaved) {
  const Overlaid alone = lay_over(under_template(), {demanded("web", "198.18.1.1")}, {}, {});
  EXPECT_EQ(names_in(alone.in_force), (Names{"sea", "sky"}));
  EXPECT_EQ(alone.absent.at("web").free, 20u);
  const Overlaid laid = lay_over(under_template(), {demanded("web", "198.18.1.1")},
                                 {{1, {pcbs("web", 25)}}, {2, {pcbs("sea", 20)}}}, {});
  EXPECT_EQ(names_in(laid.in_force), (Names{"sea", "sky", "web"}));
  EXPECT_TRUE(laid.absent.empty() && laid.left_out.empty());
  EXPECT_EQ(laid.in_force.tenants[2].pcbs, 25u);
}

TEST(Overlay, TenantsOnDemandThatCannotBeAreLeftOutOneByOne) {
  Config file = under_template();
  file.tenants[0].pcbs = 20;
  file.tenants[1].addresses = {*parse_address("198.18.1.2")};
  file.pools.pcbs = 136;
  file.pools.dedicated_pcbs = 6;
  TenantOnDemand other = demanded("other", "198.18.1.5");
  other.request.template_name = "large";
  const Overlaid laid =
      lay_over(file,
               {demanded("sky", "198.18.1.1"), demanded("deep", "198.18.1.2"), other,
                demanded("web", "198.18.1.3"), demanded("late", "198.18.1.4")},
               {{1, {pcbs("other", 1)}}, {2, {pcbs("sky", 1)}}}, {});
  EXPECT_EQ(names_in(laid.in_force), (Names{"sea", "sky", "web", "late"}));
  EXPECT_EQ(laid.in_force.tenants[1].pcbs, 1u) << "the file's, of that name";
  ASSERT_EQ(laid.absent.size(), 3u);
  EXPECT_EQ(laid.absent.at("sky").resource, "name");
  EXPECT_EQ(laid.absent.at("deep").cause, AllocationRefusal::Cause::kBadAmount);
  EXPECT_EQ(laid.absent.at("other").cause, AllocationRefusal::Cause::kNoSuchThing);
  EXPECT_TRUE(laid.left_out.contains(1));
}

TEST(Overlay, ADivisionIsMadeOverWhatIsSaved) {
  const Overlaid laid = lay_over(under(), {}, {{1, {pcbs("sea", 50)}}},
                                 of_sea({pcbs("sea", 5, "high"), pcbs("sea", 45, "low")}));
  EXPECT_EQ(amounts(laid.given), (Amounts4{50, 10, 10, 40}));
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{50, 5, 45, 40}));
}

TEST(Overlay, ADivisionThatDoesNotFitIsNotMadeAtAll) {
  const Overlaid laid =
      lay_over(under(), {}, {}, of_sea({pcbs("sea", 5, "high"), pcbs("sea", 45, "low")}));
  EXPECT_EQ(laid.in_force, under());
  EXPECT_EQ(laid.undivided.at("sea").asked, 35u);
  EXPECT_TRUE(lay_over(under(), {}, {}, of_sea({pcbs("sky", 5)})).undivided.contains("sea"))
      << "nothing but its own";
}

TEST(Overlay, WhatIsSaidAnewReplacesWhatWasSaid) {
  const auto weight = [](std::optional<std::uint32_t> tvl, std::uint64_t amount) {
    return AllocationChange{
        .tenant = "sea", .setting = LiveSetting::kWeight, .amount = amount, .tvl = tvl};
  };
  std::vector<SavedRequest> saved = {
      {1, {weight(0, 2), pcbs("sea", 30)}}, {2, {weight(1, 3)}}, {3, {pcbs("sea", 5, "high")}}};
  supersede(saved, {weight(0, 4)});
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].changes.size(), 1u);
  supersede(saved, {weight({}, 5)});
  ASSERT_EQ(saved.size(), 2u) << "every TVL";
  EXPECT_EQ(saved[1].number, 3u);
  std::vector<AllocationChange> own = {pcbs("sea", 5, "high"), pcbs("sea", 6, "low")};
  supersede(own, pcbs("sea", 7, "high"));
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[1].amount, 7u);
}

}  // namespace
}  // namespace softhca::configuration
