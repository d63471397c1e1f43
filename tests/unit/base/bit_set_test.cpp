// SPDX-License-Identifier: Apache-2.0

#include "daemon/base/bit_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace softhca {
namespace {

TEST(BitSet, EmptyHasNothingToFind) {
  const BitSet none;
  EXPECT_FALSE(none.any());
  EXPECT_EQ(none.find_first(), std::nullopt);
  const BitSet clear(100);
  EXPECT_EQ(clear.find_first(), std::nullopt);
  EXPECT_EQ(clear.find_next(0), std::nullopt);
}

TEST(BitSet, FindsTheLastBitOfEverySize) {
  for (const std::uint32_t size : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 262144u, 262145u}) {
    BitSet bits(size);
    bits.set(size - 1);
    EXPECT_EQ(bits.find_first(), size - 1) << size;
    EXPECT_EQ(bits.find_next(0), size - 1) << size;
    EXPECT_EQ(bits.find_next(size - 1), size - 1) << size;
    EXPECT_EQ(bits.find_next(size), std::nullopt) << size;
    bits.clear(size - 1);
    EXPECT_FALSE(bits.any()) << size;
  }
}

TEST(BitSet, SetAndClearTwiceAreHarmless) {
  BitSet bits(200);
  bits.set(130);
  bits.set(130);
  bits.clear(130);
  bits.clear(130);
  EXPECT_EQ(bits.find_first(), std::nullopt);
  bits.set(199);
  EXPECT_EQ(bits.find_first(), 199u);
}

TEST(BitSet, AgreesWithAnOrderedSet) {
  std::mt19937 random(1);
  for (const std::uint32_t size : {50u, 64u, 1000u, 5000u, 300000u}) {
    BitSet bits(size);
    std::set<std::uint32_t> model;
    for (int step = 0; step < 20000; ++step) {
      const std::uint32_t i = random() % size;
      if (random() % 2 != 0) {
        bits.set(i);
        model.insert(i);
      } else {
        const auto victim = model.lower_bound(i);
        if (victim != model.end()) {
          bits.clear(*victim);
          model.erase(victim);
        }
      }
      const std::uint32_t from = random() % size;
      const auto expected = model.lower_bound(from);
      const auto found = bits.find_next(from);
      ASSERT_EQ(found.has_value(), expected != model.end());
      if (found) {
        ASSERT_EQ(*found, *expected);
      }
      ASSERT_EQ(bits.find_first().has_value(), !model.empty());
      if (!model.empty()) {
        ASSERT_EQ(*bits.find_first(), *model.begin());
      }
      ASSERT_EQ((bits.find_next(i) == i), model.contains(i));
    }
  }
}

}  // namespace
}  // namespace softhca
