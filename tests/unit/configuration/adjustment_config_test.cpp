// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/adjustment_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse_adjustment(const std::string& text, const std::string& of_tenant = "") {
  return parse_config(text + "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n" + of_tenant,
                      "t.toml");
}
std::string adjustment_error(const std::string& keys) {
  const auto config = parse_adjustment("[adjustment]\n" + keys + "\n");
  return config ? "accepted" : config.error().message;
}

TEST(AdjustmentConfig, IsOffUnlessAskedFor) {
  const auto config = parse_adjustment("");
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->adjustment.automatic);
  EXPECT_TRUE(config->tenants[0].lends);
}

TEST(AdjustmentConfig, EveryKey) {
  const auto config =
      parse_adjustment("[adjustment]\nautomatic = true\nidle_s = 60\n", "lends = false\n");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->adjustment.automatic);
  EXPECT_EQ(config->adjustment.idle, std::chrono::seconds(60));
  EXPECT_FALSE(config->tenants[0].lends);
}

TEST(AdjustmentConfig, RefusesWhatMakesNoSense) {
  EXPECT_THAT(adjustment_error("idle_s = 3"), HasSubstr("adjustment.idle_s"));
  EXPECT_THAT(adjustment_error("idle_s = 86401"), HasSubstr("adjustment.idle_s"));
  EXPECT_THAT(adjustment_error("automatic = 1"), HasSubstr("adjustment.automatic"));
  EXPECT_THAT(adjustment_error("lend = true"), HasSubstr("lend"));
}

TEST(AdjustmentConfig, ChangesLive) {
  const ReloadPlan plan = plan_reload(
      *parse_adjustment(""),
      *parse_adjustment("[adjustment]\nautomatic = true\nidle_s = 60\n", "lends = false\n"));
  EXPECT_TRUE(plan.is_live());
  EXPECT_THAT(plan.texts(), testing::ElementsAre("adjustment: automatic false -> true",
                                                 "adjustment: idle_s 10 s -> 60 s",
                                                 "tenant t: lends true -> false"));
}

}  // namespace
}  // namespace softhca::configuration
