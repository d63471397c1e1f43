// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/page_ranges.hpp"

#include <gtest/gtest.h>

namespace softhca::guest {
namespace {

TEST(PageRanges, TakenRangesGivenInAnyOrder_WholeRangeIsFree) {
  PageRanges ranges;
  ranges.reset({1000, 300});
  EXPECT_EQ(ranges.take(100), 1000U);
  EXPECT_EQ(ranges.take(100), 1100U);
  EXPECT_EQ(ranges.take(100), 1200U);
  EXPECT_EQ(ranges.take(1), std::nullopt);
  ranges.give({1000, 100});
  ranges.give({1200, 100});
  EXPECT_EQ(ranges.take(101), std::nullopt);
  ranges.give({1100, 100});
  EXPECT_EQ(ranges.free_bytes(), 300U);
  EXPECT_EQ(ranges.take(300), 1000U);
}

TEST(PageRanges, RangeThatIsPartlyFree_FreePartsAreTaken) {
  PageRanges ranges;
  ranges.reset({0, 100});
  EXPECT_EQ(ranges.take_free_of({20, 10}).size(), 1U);
  EXPECT_EQ(ranges.take_free_of({50, 10}).size(), 1U);
  const auto taken = ranges.take_free_of({10, 90});
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[0].offset, 10U);
  EXPECT_EQ(taken[0].bytes, 10U);
  EXPECT_EQ(taken[1].offset, 30U);
  EXPECT_EQ(taken[2].offset, 60U);
  EXPECT_EQ(taken[2].bytes, 40U);
  EXPECT_EQ(ranges.free_bytes(), 10U);
  EXPECT_TRUE(ranges.take_free_of({500, 10}).empty());
}

}  // namespace
}  // namespace softhca::guest
