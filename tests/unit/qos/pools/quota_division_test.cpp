// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/pools/quota_division.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace softhca {
namespace {

using Amounts = std::vector<std::uint32_t>;

TEST(QuotaDivision, TheSharedPartGivesFirst) {
  const auto after = after_decrease(5, Amounts{10, 10}, 0, 4);
  EXPECT_EQ(after.shared, 1u);
  EXPECT_EQ(after.levels, (Amounts{10, 10}));
}

TEST(QuotaDivision, ThenTheDefaultLevel) {
  const auto after = after_decrease(5, Amounts{10, 8, 10}, 1, 11);
  EXPECT_EQ(after.shared, 0u);
  EXPECT_EQ(after.levels, (Amounts{10, 2, 10}));
}

TEST(QuotaDivision, ThenTheOthersInProportion) {
  const auto after = after_decrease(1, Amounts{30, 4, 10}, 1, 25);
  EXPECT_EQ(after.shared, 0u);
  EXPECT_EQ(after.levels, (Amounts{15, 0, 5}));
}

TEST(QuotaDivision, WithoutADefaultLevelAllInProportion) {
  EXPECT_EQ(after_decrease(0, Amounts{9, 3}, std::nullopt, 4).levels, (Amounts{6, 2}));
  EXPECT_EQ(after_decrease(0, Amounts{1, 1, 1}, std::nullopt, 2).levels, (Amounts{0, 0, 1}));
}

TEST(QuotaDivision, AnyDecreaseIsTakenExactlyAndFairly) {
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    Amounts levels(random() % 6);
    for (auto& level : levels) level = random() % 4 == 0 ? 0 : random() % 1000;
    const std::uint32_t shared = random() % 300;
    const std::uint32_t divided = std::accumulate(levels.begin(), levels.end(), 0u);
    std::optional<std::size_t> first;
    if (!levels.empty() && random() % 2 != 0) first = random() % levels.size();
    const std::uint32_t decrease = random() % (shared + divided + 1);
    const auto after = after_decrease(shared, levels, first, decrease);
    const std::uint32_t left = std::accumulate(after.levels.begin(), after.levels.end(), 0u);
    ASSERT_EQ(after.shared + left, shared + divided - decrease);
    if (after.shared != 0) {
      ASSERT_EQ(after.levels, levels);
    }
    const std::uint32_t from_default = first ? levels[*first] - after.levels[*first] : 0;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      ASSERT_LE(after.levels[i], levels[i]);
      if (i == first || after.levels[i] == levels[i]) continue;
      if (first) {
        ASSERT_EQ(after.levels[*first], 0u);
      }
      const std::uint64_t others = divided - (first ? levels[*first] : 0);
      const std::uint64_t wanted = decrease - shared - from_default;
      const std::uint64_t taken = levels[i] - after.levels[i];
      ASSERT_LE(taken, wanted * levels[i] / others + 1);
      ASSERT_GE(taken, wanted * levels[i] / others);
    }
  }
}

}  // namespace
}  // namespace softhca
