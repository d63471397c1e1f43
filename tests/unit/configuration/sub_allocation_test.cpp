// SPDX-License-Identifier: Apache-2.0

// Levels that a tenant makes itself, and which of its programs belong to which (mechanism A7).
#include "daemon/configuration/resource_manager/sub_allocation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;
using testing::ElementsAre;
using testing::HasSubstr;

/// Tenants `sea` and `sky` with 50 VCBs, 40 PCBs and four TVLs of weight 2 each; each may make two
/// levels.
Config whole() {
  Config config;
  config.pools.vcbs = 100;
  config.pools.pcbs = 84;
  config.pools.dedicated_pcbs = 4;
  for (const char* name : {"sea", "sky"}) {
    TenantConfig& tenant = config.tenants.emplace_back();
    tenant.name = name;
    tenant.vcbs = 50;
    tenant.pcbs = 40;
    tenant.further_levels.own = 2;
    tenant.limits = totals_of(config.pools);
    tenant.tvls.assign(4, {.weight = 2, .execution_credits = 10, .completion_credits = 20});
  }
  return config;
}

/// The operator has made `high`, kept for a cgroup, and `low`, the default one.
Config with_operators_levels() {
  Config config = whole();
  config.tenants[0].levels = {{.name = "high", .pcbs = 10, .tvls = 1, .cgroups = {"/high.slice"}},
                              {.name = "low"}};
  config.tenants[0].levels[1].is_default = true;
  return config;
}

AllocationChange amount(const char* level, LiveSetting setting, std::uint64_t number) {
  return {.tenant = "sea", .setting = setting, .amount = number, .level = level};
}
LevelEdit make(const char* level, std::vector<AllocationChange> changes = {}) {
  return {.level = level,
          .make = true,
          .is_default = {},
          .dscp = {},
          .cgroups = {},
          .changes = std::move(changes)};
}
LevelEdit change(const char* level, std::vector<AllocationChange> changes = {}) {
  LevelEdit edit = make(level, std::move(changes));
  edit.make = false;
  return edit;
}
LevelEdit default_one(LevelEdit edit) {
  edit.is_default = true;
  return edit;
}
LevelEdit with_cgroups(LevelEdit edit, std::vector<std::string> cgroups) {
  edit.cgroups = std::move(cgroups);
  return edit;
}

LevelEdit with_paths(LevelEdit edit, std::vector<std::uint8_t> service_levels,
                     std::vector<std::uint8_t> traffic_classes) {
  edit.service_levels = std::move(service_levels);
  edit.traffic_classes = std::move(traffic_classes);
  return edit;
}

/// A tenant that divides itself, one edit upon the other.
struct Divider {
  explicit Divider(Config config) : file(std::move(config)), in_force(file) {}

  const TenantConfig& given() const { return file.tenants[0]; }
  const TenantConfig& sea() const { return in_force.tenants[0]; }

  template <class Edit>
  EditOutcome put(Edit&& edit) {
    SubAllocation next = division;
    if (auto wrong = edit(next)) return wrong;
    const auto made = with_division(in_force, given(), next);
    if (!made) return made.refusal();
    in_force = *made;
    division = std::move(next);
    return std::nullopt;
  }
  EditOutcome edit(const std::vector<LevelEdit>& edits) {
    return put([&](SubAllocation& next) { return edit_levels(given(), next, edits); });
  }
  EditOutcome edit(LevelEdit one) { return edit(std::vector{std::move(one)}); }
  EditOutcome remove(const char* level) {
    return put([&](SubAllocation& next) { return remove_level(given(), next, level); });
  }
  EditOutcome rename(const char* from, const char* to) {
    return put([&](SubAllocation& next) { return rename_level(given(), next, from, to); });
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const LevelConfig& level : sea().levels)
      out.push_back(level.name + (level.is_default ? "*" : "") + (level.own ? "+" : ""));
    return out;
  }

  Config file, in_force;
  SubAllocation division;
};

std::string text_of(const EditOutcome& outcome) { return outcome ? outcome->message : ""; }

TEST(SubAllocation, ATenantMakesLevelsOfWhatItHas) {
  Divider tenant(whole());
  EXPECT_EQ(text_of(tenant.edit({default_one(make("day", {amount("day", LiveSetting::kPcbs, 10)})),
                                 make("night", {amount("night", LiveSetting::kPcbs, 30),
                                                amount("night", LiveSetting::kTvls, 2),
                                                amount("night", LiveSetting::kShared, 0)})})),
            "");
  EXPECT_THAT(tenant.names(), ElementsAre("day*+", "night+"));
  EXPECT_EQ(tenant.sea().levels[1].pcbs, 30u);
  EXPECT_FALSE(tenant.sea().levels[1].shared);
  EXPECT_EQ(tenant.sea().pcbs, 40u);
  EXPECT_EQ(tenant.in_force.tenants[1], whole().tenants[1]);
  EXPECT_EQ(without_own_levels(tenant.sea()), whole().tenants[0]);
}

TEST(SubAllocation, WhatIsNotTheTenantsIsRefused) {
  Divider tenant(whole());
  EXPECT_THAT(text_of(tenant.edit(make("day"))), HasSubstr("set default = true"));
  for (const char* name : {"", "a/b", "..", "-x", "a name"})
    EXPECT_THAT(text_of(tenant.edit(default_one(make(name)))), HasSubstr("must be 1 to 32"))
        << name;
  EXPECT_EQ(tenant.edit(change("day"))->cause, Cause::kNoSuchThing);
  EXPECT_EQ(tenant.remove("day")->cause, Cause::kNoSuchThing);
  EXPECT_EQ(tenant.rename("day", "dusk")->cause, Cause::kNoSuchThing);
  ASSERT_FALSE(tenant.edit(default_one(make("day"))));
  EXPECT_EQ(tenant.edit(make("day"))->cause, Cause::kBadAmount);
  EXPECT_EQ(tenant.edit(change("day", {amount("day", LiveSetting::kPcbs, 41)}))->cause,
            Cause::kNotFree);
  EXPECT_EQ(tenant.edit(change("day", {amount("", LiveSetting::kPcbs, 50)}))->cause,
            Cause::kNotAllowed);
  AllocationChange others = amount("day", LiveSetting::kPcbs, 1);
  others.tenant = "sky";
  EXPECT_EQ(tenant.edit(change("day", {others}))->cause, Cause::kNotAllowed);
  LevelEdit no_default = change("day");
  no_default.is_default = false;
  EXPECT_EQ(tenant.edit(no_default)->cause, Cause::kBadAmount);
  EXPECT_FALSE(tenant.edit(make("night")));
  const auto third = tenant.edit(make("dusk"));
  ASSERT_TRUE(third);
  EXPECT_EQ(third->asked, 3u);
  EXPECT_EQ(third->free, 2u);
  EXPECT_THAT(tenant.names(), ElementsAre("day*+", "night+"));
}

TEST(SubAllocation, NoLevelWeighsMoreThanTheTenantWasGiven) {
  Divider tenant(whole());
  ASSERT_FALSE(tenant.edit(default_one(make("day", {amount("day", LiveSetting::kTvls, 2)}))));
  // The sum is kept, but one TVL alone would outweigh what the operator gave to any.
  EXPECT_EQ(tenant.edit(change("day", {amount("day", LiveSetting::kWeight, 3)}))->cause,
            Cause::kNotFree);
  EXPECT_FALSE(tenant.edit(change("day", {amount("day", LiveSetting::kWeight, 1)})));
  AllocationChange one = amount("day", LiveSetting::kWeight, 3);
  one.tvl = 0;
  EXPECT_THAT(text_of(tenant.edit(change("day", {one}))),
              HasSubstr("of a TVL, more than the greatest"));
  EXPECT_EQ(tenant.edit(change("day", {amount("day", LiveSetting::kExecutionCredits, 11)}))->cause,
            Cause::kNotFree);
}

TEST(SubAllocation, TheOperatorsLevelsKeepTheirDefaultAndTheirRules) {
  Divider tenant(with_operators_levels());
  EXPECT_FALSE(tenant.edit(make("own", {amount("own", LiveSetting::kPcbs, 30)})));
  EXPECT_THAT(tenant.names(), ElementsAre("high", "low*", "own+"));
  EXPECT_EQ(tenant.edit(default_one(change("own")))->cause, Cause::kNotAllowed);
  EXPECT_EQ(tenant.remove("low")->cause, Cause::kNotAllowed);
  EXPECT_EQ(tenant.rename("low", "slow")->cause, Cause::kNotAllowed);
  EXPECT_EQ(tenant.edit(make("high"))->cause, Cause::kBadAmount);
  EXPECT_EQ(tenant.rename("own", "high")->cause, Cause::kBadAmount);
  EXPECT_EQ(tenant.edit(with_cgroups(change("high"), {"/a"}))->cause, Cause::kNotAllowed);
  EXPECT_FALSE(tenant.edit(with_cgroups(change("low"), {"/a"})));
  EXPECT_THAT(tenant.sea().levels[1].own_rules.cgroups, ElementsAre("/a"));
  EXPECT_FALSE(tenant.edit(with_cgroups(change("low"), {})));
  EXPECT_TRUE(tenant.division.rules.empty());
  // Amounts of its levels are the tenant's to divide, not their weights.
  EXPECT_FALSE(tenant.edit(change("high", {amount("high", LiveSetting::kPcbs, 5)})));
  EXPECT_EQ(tenant.edit(change("high", {amount("high", LiveSetting::kWeight, 1)}))->cause,
            Cause::kNotAllowed);
}

TEST(SubAllocation, CgroupsArePathsAndNotTooMany) {
  Divider tenant(whole());
  ASSERT_FALSE(tenant.edit(default_one(make("day"))));
  for (const char* path : {"", "relative", "/ends/", "/a//b", "/line\nfeed"})
    EXPECT_EQ(tenant.edit(with_cgroups(change("day"), {path}))->cause, Cause::kBadAmount) << path;
  EXPECT_TRUE(tenant.edit(with_cgroups(change("day"), {"/" + std::string(512, 'a')})));
  EXPECT_TRUE(tenant.edit(
      with_cgroups(change("day"), std::vector<std::string>(kMostRulesOfLevel + 1, "/a"))));
  EXPECT_FALSE(
      tenant.edit(with_cgroups(change("day"), std::vector<std::string>(kMostRulesOfLevel, "/a"))));
}

TEST(SubAllocation, AServiceLevelOrTrafficClassIsOfOneLevel) {
  Config config = with_operators_levels();
  config.tenants[0].levels[1].service_levels = {1};
  config.tenants[0].levels[1].traffic_classes = {104};
  config.pools.dedicated_pcbs = 5;  // one for each TVL, of four levels and the other tenant
  Divider tenant(config);
  ASSERT_FALSE(tenant.edit(with_paths(make("day"), {3, 4}, {32})));
  EXPECT_THAT(tenant.sea().levels[2].own_rules.service_levels, ElementsAre(3, 4));
  EXPECT_THAT(tenant.sea().levels[2].own_rules.traffic_classes, ElementsAre(32));
  EXPECT_THAT(text_of(tenant.edit(with_paths(make("night"), {4}, {}))),
              HasSubstr("service level 4 belongs to level day already"));
  EXPECT_THAT(text_of(tenant.edit(with_paths(make("night"), {}, {35}))),
              HasSubstr("traffic class 35 belongs to level day already"));
  EXPECT_EQ(tenant.edit(with_paths(make("night"), {1}, {}))->cause, Cause::kNotAllowed);
  EXPECT_EQ(tenant.edit(with_paths(make("night"), {}, {106}))->cause, Cause::kNotAllowed);
  EXPECT_EQ(tenant.edit(with_paths(make("night"), {16}, {}))->cause, Cause::kBadAmount);
  EXPECT_EQ(tenant.edit(with_paths(change("high"), {5}, {}))->cause, Cause::kNotAllowed)
      << "kept for its cgroup";
  EXPECT_FALSE(tenant.edit(with_paths(change("low"), {5}, {})));
  EXPECT_FALSE(tenant.edit(with_paths(change("day"), {4}, {33})));
  EXPECT_EQ(text_of(tenant.edit(with_paths(make("night"), {3}, {}))), "");
  EXPECT_EQ(text_of(tenant.edit(with_paths(change("night"), {}, {}))), "");
  EXPECT_EQ(tenant.division.rules.count("night"), 0u);
}

TEST(SubAllocation, TheDscpOfALevelIsTheTenantsUnlessTheOperatorHasOne) {
  Divider tenant(whole());
  LevelEdit marked = default_one(make("day"));
  marked.dscp = std::optional<std::uint8_t>(12);
  ASSERT_FALSE(tenant.edit(marked));
  EXPECT_EQ(tenant.sea().levels[0].dscp, 12);
  tenant.file.tenants[0].dscp = 10;
  const auto made = with_division(tenant.file, tenant.given(), tenant.division);
  ASSERT_TRUE(made);
  EXPECT_FALSE((*made).tenants[0].levels[0].dscp) << "the operator's goes before it";
  EXPECT_EQ(tenant
                .edit([&] {
                  LevelEdit again = change("day");
                  again.dscp = std::optional<std::uint8_t>(13);
                  return again;
                }())
                ->cause,
            Cause::kNotAllowed);
}

TEST(SubAllocation, ANewNameKeepsAllElse) {
  Divider tenant(whole());
  ASSERT_FALSE(tenant.edit({default_one(make("day", {amount("day", LiveSetting::kPcbs, 7)})),
                            with_cgroups(make("night"), {"/night"})}));
  ASSERT_FALSE(tenant.rename("day", "dawn"));
  ASSERT_FALSE(tenant.rename("night", "day"));
  EXPECT_THAT(tenant.names(), ElementsAre("dawn*+", "day+"));
  EXPECT_EQ(tenant.sea().levels[0].pcbs, 7u);
  EXPECT_EQ(tenant.sea().levels[1].pcbs, 0u);
  EXPECT_THAT(tenant.sea().levels[1].own_rules.cgroups, ElementsAre("/night"));
}

TEST(SubAllocation, WhatIsRemovedLeavesNothing) {
  Divider tenant(whole());
  ASSERT_FALSE(tenant.edit({default_one(make("day", {amount("day", LiveSetting::kPcbs, 7)})),
                            with_cgroups(make("night", {amount("night", LiveSetting::kVcbs, 9),
                                                        amount("night", LiveSetting::kTvls, 2)}),
                                         {"/night"})}));
  EXPECT_EQ(tenant.remove("day")->cause, Cause::kBadAmount) << "the default one, beside another";
  ASSERT_FALSE(tenant.remove("night"));
  EXPECT_EQ(tenant.division.changes.size(), 1u);
  ASSERT_FALSE(tenant.remove("day"));
  EXPECT_TRUE(tenant.division.empty());
  EXPECT_EQ(tenant.in_force, whole());
}

TEST(SubAllocation, RemovedLevelsCountUntilTheirProgramsEnd) {
  Divider tenant(whole());
  ASSERT_FALSE(tenant.edit(default_one(make("day"))));
  Held held;
  held.parts.push_back({.tenant = "sea", .levels = 1});
  SubAllocation two = tenant.division;
  ASSERT_FALSE(edit_levels(tenant.given(), two, std::vector{make("night")}));
  const auto made = with_division(tenant.in_force, tenant.given(), two, held);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.refusal().message, HasSubstr("programs of removed levels still hold 1"));
  held.parts[0].tenant = "sky";
  EXPECT_TRUE(with_division(tenant.in_force, tenant.given(), two, held));
}

/// When a level gives up TVLs, the changes made to those TVLs are dropped. The remaining changes
/// stay valid.
TEST(SubAllocation, WhatIsSaidOfTvlsGoesWithThem) {
  Divider tenant(whole());
  AllocationChange second = amount("day", LiveSetting::kExecutionCredits, 5);
  second.tvl = 1;
  ASSERT_FALSE(
      tenant.edit(default_one(make("day", {amount("day", LiveSetting::kTvls, 2), second}))));
  EXPECT_FALSE(tenant.edit(change("day", {amount("day", LiveSetting::kTvls, 1)})));
  EXPECT_EQ(tenant.division.changes.size(), 1u);
}

TEST(SubAllocation, AnySequenceKeepsTotalsAndOthers) {
  std::mt19937 random(7);
  Divider tenant(whole());
  unsigned accepted = 0;
  const char* const names[] = {"a", "b", "c"};
  for (int round = 0; round < 6000; ++round) {
    const char* name = names[random() % 3];
    EditOutcome outcome;
    switch (random() % 4) {
      case 0:
        outcome = tenant.remove(name);
        break;
      case 1:
        outcome = tenant.rename(name, names[random() % 3]);
        break;
      default: {
        LevelEdit edit = random() % 2 ? make(name) : change(name);
        if (random() % 2) edit.is_default = random() % 4 != 0;
        for (unsigned n = random() % 3; n > 0; --n)
          edit.changes.push_back(
              amount(name, static_cast<LiveSetting>(random() % kLiveSettings), random() % 30));
        outcome = tenant.edit(edit);
      }
    }
    accepted += !outcome;
    const TenantConfig& sea = tenant.sea();
    ASSERT_EQ(tenant.in_force.tenants[1], whole().tenants[1]);
    ASSERT_LE(sea.levels.size(), 2u);
    std::uint64_t pcbs = 0, vcbs = 0, tvls = 0, defaults = 0;
    for (const LevelConfig& level : sea.levels) {
      pcbs += level.pcbs;
      vcbs += level.vcbs;
      tvls += level.tvls;
      defaults += level.is_default;
    }
    ASSERT_TRUE(pcbs <= 40 && vcbs <= 50 && tvls <= 4);
    ASSERT_EQ(defaults, sea.levels.empty() ? 0u : 1u);
    ASSERT_LE(held_by(sea).execution_credits, 40u);
    // The same over again is the same: what is in force can be made of the division alone.
    const auto again = with_division(whole(), tenant.given(), tenant.division);
    ASSERT_TRUE(again) << again.refusal().message;
    ASSERT_EQ((*again).tenants[0].levels, sea.levels);
  }
  EXPECT_GT(accepted, 500u);
}

}  // namespace
}  // namespace softhca::configuration
