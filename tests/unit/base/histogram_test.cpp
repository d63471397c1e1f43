// SPDX-License-Identifier: Apache-2.0

#include "daemon/base/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace softhca {
namespace {

TEST(Histogram, BucketsFollowOneAnotherWithoutGap) {
  for (std::size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    EXPECT_EQ(Histogram::bucket_of(Histogram::last_of(i)), i);
    EXPECT_EQ(Histogram::bucket_of(Histogram::last_of(i) + 1), i + 1);
  }
  EXPECT_EQ(Histogram::bucket_of(~std::uint64_t{0}), Histogram::kBuckets - 1);
}

TEST(Histogram, NothingHasNoQuantile) { EXPECT_EQ(Histogram().quantile(0.99), 0u); }

TEST(Histogram, QuantilesAreThoseOfTheValuesToOnePartInEight) {
  std::mt19937_64 random(1);
  Histogram histogram;
  std::vector<std::uint64_t> values;
  std::uint64_t sum = 0;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(random() >> (30 + random() % 30));
    histogram.add(values.back());
    sum += values.back();
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.sum(), sum);
  for (const double q : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const std::uint64_t exact = values[static_cast<std::size_t>(q * 9999)];
    EXPECT_GE(histogram.quantile(q), exact);
    EXPECT_LE(histogram.quantile(q), exact + exact / 8);
  }
}

TEST(Histogram, CountsBelowAPowerOfTwo) {
  Histogram histogram;
  for (const std::uint64_t v : {0u, 7u, 8u, 15u, 16u, 1023u, 1024u}) histogram.add(v);
  EXPECT_EQ(histogram.count_below(8), 2u);
  EXPECT_EQ(histogram.count_below(16), 4u);
  EXPECT_EQ(histogram.count_below(1024), 6u);
  EXPECT_EQ(histogram.count_below(2048), 7u);
}

}  // namespace
}  // namespace softhca
