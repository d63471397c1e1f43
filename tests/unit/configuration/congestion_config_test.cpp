// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse_congestion(const std::string& keys) {
  return parse_config(
      "[congestion]\n" + keys + "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n",
      "t.toml");
}
std::string congestion_error(const std::string& keys) {
  const auto config = parse_congestion(keys);
  return config ? "accepted" : config.error().message;
}

TEST(CongestionConfig, Modes) {
  EXPECT_EQ(parse_congestion("")->congestion.mode, CongestionMode::kNotify);
  EXPECT_EQ(parse_congestion("mode = \"off\"")->congestion.mode, CongestionMode::kOff);
  EXPECT_EQ(parse_congestion("mode = \"notify\"")->congestion.mode, CongestionMode::kNotify);
  EXPECT_EQ(parse_congestion("mode = \"on\"")->congestion.mode, CongestionMode::kOn);
  EXPECT_THAT(congestion_error("mode = \"maybe\""), HasSubstr("2: congestion.mode: must be"));
  EXPECT_THAT(congestion_error("mode = 1"), HasSubstr("2: congestion.mode:"));
}

/// Each key goes where it belongs: one less or more than its default, everything else unchanged.
TEST(CongestionConfig, EveryKey) {
  for (const Key& key : schema_of<CongestionParameters>().keys) {
    if (key.at.type == Type::kWord) continue;
    CongestionParameters wanted;
    const std::uint64_t before = amount_in(key, &wanted);
    if (key.at.type == Type::kBoolean)
      set_amount(key, &wanted, 1 - before);
    else
      set_amount(key, &wanted, before <= 1 ? before + 1 : before - 1);
    const auto config = parse_congestion(std::string(key.name) + " = " + to_text(key, &wanted));
    ASSERT_TRUE(config) << key.name << ": " << config.error().message;
    EXPECT_TRUE(config->congestion == wanted) << key.name;
    EXPECT_FALSE(wanted == CongestionParameters{}) << key.name;
  }
}

TEST(CongestionConfig, Bounds) {
  for (const char* text : {"cnp_dscp = 64", "cnp_802p_prio = 6", "rpg_max_rate = 0",
                           "rpg_max_rate = 1000001", "rpg_gd = 11"})
    EXPECT_THAT(congestion_error(text), HasSubstr("2: congestion.")) << text;
}

}  // namespace
}  // namespace softhca::configuration
