// SPDX-License-Identifier: Apache-2.0

// The text of a share, and its part of a total.
#include "daemon/configuration/tenant_share.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace softhca::configuration {
namespace {

TEST(Share, Text_IsAPercentageWithOneDigitBehindThePoint) {
  for (const auto& [text, tenths] : std::vector<std::pair<const char*, unsigned>>{
           {"0%", 0}, {"0.1%", 1}, {"12.5%", 125}, {"50%", 500}, {"100%", 1000}, {"100.0%", 1000}})
    EXPECT_EQ(parse_share(text), Share{tenths}) << text;
  for (const char* text : {"", "%", "50", "50 %", "-1%", "100.1%", "101%", "12.55%", ".5%", "5.%",
                           "50%%", "4294967346%"})
    EXPECT_FALSE(parse_share(text)) << text;
  EXPECT_EQ(to_text(Share{125}), "12.5%");
  EXPECT_EQ(to_text(Share{500}), "50%");
}

TEST(Share, PartOfATotal_IsRoundedDownWithoutOverflow) {
  EXPECT_EQ(part_of({333}, 1000), 333u);
  EXPECT_EQ(part_of({333}, 1001), 333u);
  EXPECT_EQ(part_of(kWhole, ~std::uint64_t{0}), ~std::uint64_t{0});
}

}  // namespace
}  // namespace softhca::configuration
