// SPDX-License-Identifier: Apache-2.0

// Which level a process belongs to: by socket, else by user and group, else by cgroup, else by what
// it asks for, else the default level.
#include "daemon/device/adapter/levels.hpp"
#include "daemon/engine/requests/level_settings.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softhca::control {
namespace {

constexpr uid_t kUser = 4711;
constexpr gid_t kUserGroup = 4712;

/// Levels `socket`, `user`, `group`, each kept for those, `open` and `rest`, the default one.
class ChooseLevel : public ::testing::Test {
 protected:
  ChooseLevel() {
    config.levels = {{.name = "socket"},
                     {.name = "user"},
                     {.name = "group"},
                     {.name = "open"},
                     {.name = "rest"}};
    config.levels[0].socket = configuration::SocketConfig{};
    config.levels[1].users = {"nobody-of-that-name", std::to_string(kUser)};
    config.levels[2].groups = {std::to_string(kUserGroup)};
    config.levels[4].is_default = true;
    for (const configuration::LevelConfig& entry : config.levels) {
      tenant.levels.push_back(make_level(entry));
      tenant.levels.back()->is_default = entry.is_default;
    }
  }

  engine::Level* level(const std::string& name) {
    for (const auto& there : tenant.levels)
      if (there->name == name) return there.get();
    return nullptr;
  }
  std::string chosen(const LevelQuery& query) {
    const auto result = choose_level(config, tenant, query);
    if (!result) return result.error().code == EACCES ? "EACCES" : "EINVAL";
    return *result == nullptr ? "none" : (*result)->name;
  }

  configuration::TenantConfig config;
  engine::Tenant tenant;
};

TEST_F(ChooseLevel, WhoSaysNothingIsOfTheDefaultLevel) { EXPECT_EQ(chosen({}), "rest"); }

TEST_F(ChooseLevel, TheSocketIsStrongerThanTheRulesAndTheseThanTheName) {
  EXPECT_EQ(
      chosen({.by_socket = level("socket"), .uid = kUser, .groups = {kUserGroup}, .name = "open"}),
      "socket");
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = "open"}), "user");
  EXPECT_EQ(chosen({.uid = 1, .groups = {5, kUserGroup}, .name = "open"}), "group");
  EXPECT_EQ(chosen({.uid = 1, .groups = {5}, .name = "open"}), "open");
  // When two rules apply, that of the first level counts.
  EXPECT_EQ(chosen({.uid = kUser, .groups = {kUserGroup}, .name = {}}), "user");
  std::swap(config.levels[1], config.levels[2]);
  EXPECT_EQ(chosen({.uid = kUser, .groups = {kUserGroup}, .name = {}}), "group");
}

TEST_F(ChooseLevel, LevelsWithASocketOrRulesAreNotToBeHadByName) {
  for (const char* kept : {"socket", "user", "group"})
    EXPECT_EQ(chosen({.uid = 1, .groups = {1}, .name = kept}), "EACCES") << kept;
  config.levels[3].cgroups = {"/a"};
  EXPECT_EQ(chosen({.uid = 1, .groups = {1}, .name = "open"}), "EACCES");
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = "user"}), "user");
  EXPECT_EQ(chosen({.uid = 1, .groups = {}, .name = "no-such"}), "EINVAL");
  // A name that does not exist is a mistake, whatever else says where it belongs.
  EXPECT_EQ(chosen({.by_socket = level("socket"), .uid = 1, .groups = {}, .name = "no-such"}),
            "EINVAL");
}

TEST_F(ChooseLevel, CgroupsComeAfterUsersAndBeforeTheName) {
  config.levels[0].cgroups = {"/batch.slice"};
  config.levels[2].cgroups = {"/batch.slice/urgent", "/other"};
  const auto in = [](const char* cgroup, uid_t uid = 1, std::string_view name = {}) {
    return LevelQuery{.uid = uid, .groups = {}, .cgroup = cgroup, .name = name};
  };
  EXPECT_EQ(chosen(in("/batch.slice/any")), "socket");
  EXPECT_EQ(chosen(in("/batch.slice/urgent/one")), "group") << "the longest path that fits";
  EXPECT_EQ(chosen(in("/batch.slice2")), "rest");
  EXPECT_EQ(chosen(in("")), "rest");
  EXPECT_EQ(chosen(in("/batch.slice", kUser)), "user");
  EXPECT_EQ(chosen(in("/batch.slice", 1, "open")), "socket");
  level("group")->control.leaving = true;
  EXPECT_EQ(chosen(in("/batch.slice/urgent")), "socket") << "else the next one";
}

/// What the tenant says of its own programs decides only where the operator says nothing.
TEST_F(ChooseLevel, TheOperatorsCgroupsGoBeforeTheTenants) {
  EXPECT_FALSE(asks_for_cgroup(config));
  config.levels[3].own_rules.cgroups = {"/batch.slice/urgent"};
  EXPECT_TRUE(asks_for_cgroup(config));
  const auto in = [](const char* cgroup, std::string_view name = {}) {
    return LevelQuery{.uid = 1, .groups = {}, .cgroup = cgroup, .name = name};
  };
  EXPECT_EQ(chosen(in("/batch.slice/urgent")), "open");
  EXPECT_EQ(chosen(in("/elsewhere", "open")), "open") << "own rules keep no program out";
  config.levels[2].cgroups = {"/batch.slice"};
  EXPECT_EQ(chosen(in("/batch.slice/urgent")), "group");
}

TEST(LevelRules, ArePathsOfQueuePairs) {
  configuration::LevelConfig config{.name = "day"};
  config.service_levels = {0, 15};
  config.traffic_classes = {106};
  config.own_rules.traffic_classes = {0, 255};
  const auto made = make_level(config);
  EXPECT_EQ(made->rules, (engine::PathRules{0x8001, std::uint64_t{1} << 26}));
  EXPECT_EQ(made->own_rules, (engine::PathRules{0, std::uint64_t{1} << 63 | 1}));
  engine::set_rules(*made, nullptr);
  EXPECT_EQ(made->rules, engine::PathRules{}) << "it is leaving";
  EXPECT_EQ(made->own_rules, engine::PathRules{});
}

/// Not when a process comes: what has changed in a configuration or a user database counts from the
/// next reload on.
TEST_F(ChooseLevel, MembersAreLookedUpWhenTheyAreSet) {
  config.levels[1].users = {"root", "nobody-of-that-name"};
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = {}}), "user");
  set_members(*level("user"), &config.levels[1]);
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = {}}), "rest");
  EXPECT_EQ(chosen({.uid = 0, .groups = {}, .name = {}}), "user");
  set_members(*level("user"), nullptr);
  EXPECT_EQ(chosen({.uid = 0, .groups = {}, .name = {}}), "rest") << "it is leaving";
}

TEST_F(ChooseLevel, OneThatIsLeavingTakesNobody) {
  level("socket")->control.leaving = level("open")->control.leaving = true;
  EXPECT_EQ(chosen({.by_socket = level("socket"), .uid = 1, .groups = {}, .name = {}}), "rest");
  EXPECT_EQ(chosen({.uid = 1, .groups = {}, .name = "open"}), "EINVAL");
  for (const auto& there : tenant.levels) there->control.leaving = true;
  EXPECT_EQ(chosen({}), "none");
}

TEST_F(ChooseLevel, ATenantThatIsNotDividedHasNone) {
  tenant.levels.clear();
  config.levels.clear();
  EXPECT_EQ(chosen({}), "none");
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = "open"}), "EINVAL");
}

}  // namespace
}  // namespace softhca::control
