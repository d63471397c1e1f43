// SPDX-License-Identifier: Apache-2.0

#include "daemon/base/counter.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace softhca {
namespace {

TEST(Counter, CountsUpAndDownAndKeepsTheLargest) {
  Gauge gauge;
  gauge.add(5);
  gauge.subtract(2);
  EXPECT_EQ(gauge.value(), 3u);
  gauge.raise_to(2);
  EXPECT_EQ(gauge.value(), 3u);
  gauge.raise_to(9);
  EXPECT_EQ(gauge.value(), 9u);
}

TEST(Counter, CopyTakesTheValue) {
  Counter a;
  a.add(7);
  const Counter b = a;
  a.add();
  EXPECT_EQ(b.value(), 7u);
  EXPECT_EQ(a.value(), 8u);
}

TEST(Counter, AReaderOnAnotherThreadNeverSeesItGoBack) {
  constexpr std::uint64_t kEnd = 200000;
  Counter counter;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kEnd; ++i) counter.add();
  });
  std::uint64_t last = 0;
  bool went_back = false;
  while (last < kEnd) {
    const std::uint64_t now = counter.value();
    went_back |= now < last;
    last = now;
  }
  writer.join();
  EXPECT_FALSE(went_back);
}

}  // namespace
}  // namespace softhca
