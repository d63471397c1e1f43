// SPDX-License-Identifier: Apache-2.0

#include "abi/quantity.hpp"

#include <gtest/gtest.h>

namespace softhca::abi {
namespace {

TEST(Quantity, NumberAndUnit_AreBytes) {
  EXPECT_EQ(parse_quantity("0"), 0u);
  EXPECT_EQ(parse_quantity("300"), 300u);
  EXPECT_EQ(parse_quantity("64K"), 65536u);
  EXPECT_EQ(parse_quantity("100M"), 104'857'600u);
  EXPECT_EQ(parse_quantity("2G"), 2'147'483'648u);
  EXPECT_EQ(parse_quantity("1T"), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_quantity("8kbit"), 1000u);
  EXPECT_EQ(parse_quantity("100Mbit"), 12'500'000u);
  EXPECT_EQ(parse_quantity("10Gbit"), 1'250'000'000u);
  EXPECT_EQ(parse_quantity("1Tbit"), 125'000'000'000u);
  EXPECT_EQ(parse_quantity("18446744073709551615"), ~std::uint64_t{0});
}

TEST(Quantity, AnotherText_IsNothing) {
  for (const char* text : {"", "K", "-1", "+1", " 1", "1 ", "1k", "1KB", "1.5M", "1Kbit", "1bit",
                           "1Gbits", "0x10", "18446744073709551616", "16777216T", "1e3"})
    EXPECT_EQ(parse_quantity(text), std::nullopt) << text;
}

}  // namespace
}  // namespace softhca::abi
