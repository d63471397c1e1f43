// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/receive/holdings.hpp"

#include <gtest/gtest.h>

namespace softhca::receive {
namespace {

TEST(Holdings, TheSameMemoryGoesBackToItsOwner) {
  Holdings holdings(4);
  holdings.add(0x1000, 1);
  holdings.add(0x2000, 2);
  holdings.add(0x3000, 3);
  EXPECT_EQ(holdings.give_back(0x2000), 2u);
  EXPECT_EQ(holdings.give_back(0x3000), 3u);
  EXPECT_EQ(holdings.give_back(0x1000), 1u);
  EXPECT_EQ(holdings.count(), 0u);
}

TEST(Holdings, UnknownMemoryGivesBackTheOldest) {
  Holdings holdings(4);
  holdings.add(0x1000, 1);
  holdings.add(0x2000, 2);
  EXPECT_EQ(holdings.give_back(0x9000), 1u);
  EXPECT_EQ(holdings.give_back(0x1000), 2u);
}

TEST(Holdings, MemoryPostedTwiceGoesBackInTheOrderOfCompletion) {
  Holdings holdings(4);
  holdings.add(0, 1);
  holdings.add(0, 2);
  EXPECT_EQ(holdings.give_back(0), 1u);
  EXPECT_EQ(holdings.give_back_oldest(), 2u);
}

TEST(Holdings, PlacesAreUsedAgain) {
  Holdings holdings(2);
  for (std::uint32_t i = 0; i < 100; ++i) {
    holdings.add(i * 4096, i);
    holdings.add(i * 4096 + 64, i + 1000);
    EXPECT_TRUE(holdings.full());
    EXPECT_EQ(holdings.give_back(i * 4096 + 64), i + 1000);
    EXPECT_EQ(holdings.give_back(i * 4096), i);
  }
}

/// A consumer may choose addresses that all fall into one bucket. With one bucket they do.
TEST(Holdings, SearchIsBounded) {
  Holdings holdings(64);
  for (std::uint32_t i = 0; i < 64; ++i) holdings.add(std::uint64_t{i} << 60 << 1, i);
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_LT(holdings.give_back(~0ull), 64u);
  EXPECT_EQ(holdings.count(), 0u);
}

}  // namespace
}  // namespace softhca::receive
