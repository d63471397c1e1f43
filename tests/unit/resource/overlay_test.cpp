// What lies over the configuration file.
#include "daemon/resource/overlay.hpp"

#include <gtest/gtest.h>

namespace softhca::resource {
namespace {

/// Of 100 PCBs `sea` and `sky` have 40 each; of those of `sea` `high` and `low` have 10 each.
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
  return {.tenant = tenant, .allocation = Allocation::kPcbs, .amount = amount, .level = level};
}

OwnChanges of_sea(std::vector<AllocationChange> changes) {
  return {{"sea", std::make_shared<const std::vector<AllocationChange>>(std::move(changes))}};
}

std::vector<std::uint32_t> amounts(const Config& config) {
  const TenantConfig& sea = config.tenants[0];
  return {sea.pcbs, sea.levels[0].pcbs, sea.levels[1].pcbs, config.tenants[1].pcbs};
}
using Amounts4 = std::vector<std::uint32_t>;

TEST(Overlay, NothingSavedIsTheFile) {
  const Overlaid laid = lay_over(under(), {}, {});
  EXPECT_EQ(laid.in_force, under());
  EXPECT_EQ(laid.given, under());
}

TEST(Overlay, RequestsAreMadeInTheirOrder) {
  // The total shrinks after the level has grown, and takes from it.
  const Overlaid laid =
      lay_over(under(), {{1, {pcbs("sea", 30, "low")}}, {2, {pcbs("sea", 20)}}}, {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 40}));
}

TEST(Overlay, WhatALaterOneGivesBackAnEarlierOneMayTake) {
  const Overlaid laid = lay_over(under(), {{1, {pcbs("sky", 80)}}, {2, {pcbs("sea", 20)}}}, {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 80}));
}

TEST(Overlay, RequestsThatFitOnlyTogetherAreMadeTogether) {
  // Each of them takes what the other one gives back.
  Config file = under();
  file.pools.vcbs = 100;
  file.tenants[0].vcbs = file.tenants[1].vcbs = 40;
  const auto vcbs = [](const char* tenant, std::uint64_t amount) {
    return AllocationChange{.tenant = tenant, .allocation = Allocation::kVcbs, .amount = amount};
  };
  const Overlaid laid = lay_over(
      file, {{1, {pcbs("sky", 80), vcbs("sky", 20)}}, {2, {pcbs("sea", 20), vcbs("sea", 80)}}}, {});
  EXPECT_TRUE(laid.left_out.empty());
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{20, 10, 10, 80}));
  EXPECT_EQ(laid.in_force.tenants[0].vcbs, 80u);
}

TEST(Overlay, WhatDoesNotFitIsLeftOutWholeAndTheRestIsMade) {
  const Overlaid laid = lay_over(
      under(),
      {{1, {pcbs("sea", 30), pcbs("sky", 90)}}, {2, {pcbs("nobody", 1)}}, {3, {pcbs("sea", 50)}}},
      {});
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{50, 10, 10, 40}));
  ASSERT_EQ(laid.left_out.size(), 2u);
  EXPECT_EQ(laid.left_out.at(1).resource, "pcbs");
  EXPECT_EQ(laid.left_out.at(1).free, 30u);
  EXPECT_EQ(laid.left_out.at(2).cause, AllocationRefusal::Cause::kNoSuchThing);
}

TEST(Overlay, ADivisionIsMadeOverWhatIsSaved) {
  const Overlaid laid = lay_over(under(), {{1, {pcbs("sea", 50)}}},
                                 of_sea({pcbs("sea", 5, "high"), pcbs("sea", 45, "low")}));
  EXPECT_EQ(amounts(laid.given), (Amounts4{50, 10, 10, 40}));
  EXPECT_EQ(amounts(laid.in_force), (Amounts4{50, 5, 45, 40}));
}

TEST(Overlay, ADivisionThatDoesNotFitIsNotMadeAtAll) {
  const Overlaid laid =
      lay_over(under(), {}, of_sea({pcbs("sea", 5, "high"), pcbs("sea", 45, "low")}));
  EXPECT_EQ(laid.in_force, under());
  EXPECT_EQ(laid.undivided.at("sea").asked, 35u);
  EXPECT_TRUE(lay_over(under(), {}, of_sea({pcbs("sky", 5)})).undivided.contains("sea"))
      << "nothing but its own";
}

TEST(Overlay, WhatIsSaidAnewReplacesWhatWasSaid) {
  const auto weight = [](std::optional<std::uint32_t> tvl, std::uint64_t amount) {
    return AllocationChange{
        .tenant = "sea", .allocation = Allocation::kWeight, .amount = amount, .tvl = tvl};
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
}  // namespace softhca::resource
