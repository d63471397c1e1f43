// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse(const std::string& reliability, const std::string& tenant = {}) {
  return parse_config("[reliability]\n" + reliability +
                          "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n" + tenant,
                      "t.toml");
}
std::string error_of(const std::string& reliability, const std::string& tenant = {}) {
  const auto config = parse(reliability, tenant);
  return config ? "accepted" : config.error().message;
}

TEST(ReliabilityConfig, EveryKey) {
  EXPECT_EQ(parse("")->reliability, ReliabilityParameters{});
  const auto config = parse("selective_repeat = false\nkept_packets = 10\nout_of_order = 20");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(
      config->reliability,
      (ReliabilityParameters{.selective_repeat = false, .kept_packets = 10, .out_of_order = 20}));
}

TEST(ReliabilityConfig, Bounds) {
  EXPECT_THAT(error_of("kept_packets = 1048577"), HasSubstr("2: reliability.kept_packets"));
  EXPECT_THAT(error_of("out_of_order = 32769"), HasSubstr("2: reliability.out_of_order"));
  EXPECT_THAT(error_of("out_of_order = -1"), HasSubstr("2: reliability.out_of_order"));
  EXPECT_THAT(error_of("selective_repeat = 1"), HasSubstr("2: reliability.selective_repeat"));
  EXPECT_THAT(error_of("", "kept_packets = 1048577"), HasSubstr("kept_packets"));
}

TEST(ReliabilityConfig, ATenantKeepsHalfOfTheRoomUnlessItIsGivenMore) {
  const auto config = parse("kept_packets = 100", "kept_packets = 0");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(kept_watermark(config->tenants[0].kept_packets, config->reliability), 0u);
  EXPECT_EQ(kept_watermark({}, config->reliability), 50u);
  EXPECT_EQ(kept_watermark({}, {.kept_packets = 1}), 1u);
  EXPECT_EQ(kept_watermark({}, {.kept_packets = 0}), 0u);
}

}  // namespace
}  // namespace softhca::configuration
