// Which level a process belongs to: by socket, else by user and group, else by what it asks for,
// else the default level.
#include "daemon/control/adapter/levels.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softhca::control {
namespace {

constexpr uid_t kUser = 4711;
constexpr gid_t kGroup = 4712;

/// Levels `socket`, `user`, `group`, each kept for those, `open` and `rest`, the default one.
class ChooseLevel : public ::testing::Test {
 protected:
  ChooseLevel() {
    config.levels = {{.name = "socket"},
                     {.name = "user"},
                     {.name = "group"},
                     {.name = "open"},
                     {.name = "rest"}};
    config.levels[0].socket = resource::SocketConfig{};
    config.levels[1].users = {"nobody-of-that-name", std::to_string(kUser)};
    config.levels[2].groups = {std::to_string(kGroup)};
    config.levels[4].is_default = true;
    for (const resource::LevelConfig& entry : config.levels) {
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

  resource::TenantConfig config;
  engine::Tenant tenant;
};

TEST_F(ChooseLevel, WhoSaysNothingIsOfTheDefaultLevel) { EXPECT_EQ(chosen({}), "rest"); }

TEST_F(ChooseLevel, TheSocketIsStrongerThanTheRulesAndTheseThanTheName) {
  EXPECT_EQ(
      chosen({.by_socket = level("socket"), .uid = kUser, .groups = {kGroup}, .name = "open"}),
      "socket");
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = "open"}), "user");
  EXPECT_EQ(chosen({.uid = 1, .groups = {5, kGroup}, .name = "open"}), "group");
  EXPECT_EQ(chosen({.uid = 1, .groups = {5}, .name = "open"}), "open");
  // When two rules apply, that of the first level counts.
  EXPECT_EQ(chosen({.uid = kUser, .groups = {kGroup}, .name = {}}), "user");
  std::swap(config.levels[1], config.levels[2]);
  EXPECT_EQ(chosen({.uid = kUser, .groups = {kGroup}, .name = {}}), "group");
}

TEST_F(ChooseLevel, LevelsWithASocketOrRulesAreNotToBeHadByName) {
  for (const char* kept : {"socket", "user", "group"})
    EXPECT_EQ(chosen({.uid = 1, .groups = {1}, .name = kept}), "EACCES") << kept;
  EXPECT_EQ(chosen({.uid = kUser, .groups = {}, .name = "user"}), "user");
  EXPECT_EQ(chosen({.uid = 1, .groups = {}, .name = "no-such"}), "EINVAL");
  // A name that does not exist is a mistake, whatever else says where it belongs.
  EXPECT_EQ(chosen({.by_socket = level("socket"), .uid = 1, .groups = {}, .name = "no-such"}),
            "EINVAL");
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
