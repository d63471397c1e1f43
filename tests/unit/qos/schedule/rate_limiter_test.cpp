// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/rate_limiter.hpp"

#include <gtest/gtest.h>

#include <random>

namespace softhca::schedule {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart = Time{} + seconds(100);

TEST(RateLimiter, WithoutARateNothingWaits) {
  RateLimiter limiter;
  EXPECT_FALSE(limiter.limited());
  for (int i = 0; i < 1000; ++i) limiter.charge(1u << 31, kStart);
  EXPECT_LE(limiter.ready_at(), kStart);
}

TEST(RateLimiter, ABurstGoesAtOnceThenTheRateHolds) {
  RateLimiter limiter;
  limiter.set({}, {.per_second = 1000, .burst = 10}, kStart);
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(limiter.ready_at(), kStart) << i;
    limiter.charge(1, kStart);
  }
  EXPECT_GT(limiter.ready_at(), kStart);
  EXPECT_LE(limiter.ready_at(), kStart + milliseconds(1) + Duration(100));
}

TEST(RateLimiter, AMessageLongerThanTheBurstRunsIntoDebt) {
  RateLimiter limiter;
  limiter.set({.per_second = 1'000'000, .burst = 1000}, {}, kStart);
  EXPECT_LE(limiter.ready_at(), kStart);
  limiter.charge(2'000'000, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + milliseconds(1998));
  EXPECT_LE(limiter.ready_at(), kStart + milliseconds(2000) + Duration(100));
}

TEST(RateLimiter, HalfOfTheBurstIsThereLaterThanTheDebtIsPaid) {
  RateLimiter limiter;
  limiter.set({.per_second = 1000, .burst = 100}, {}, kStart);
  EXPECT_LE(limiter.half_full_at(), kStart);
  limiter.charge(200, kStart);
  EXPECT_EQ(limiter.half_full_at(), kStart + milliseconds(150));
  limiter.set({}, {}, kStart);
  EXPECT_LE(limiter.half_full_at(), kStart);
}

TEST(RateLimiter, TheScarcerOfTheTwoDecides) {
  RateLimiter limiter;
  limiter.set({.per_second = 1000, .burst = 1}, {.per_second = 10, .burst = 1}, kStart);
  limiter.charge(1, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + milliseconds(99));
  limiter.charge(1000, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + milliseconds(999));
}

TEST(RateLimiter, APauseEarnsOneBurstAndNoMore) {
  RateLimiter limiter;
  limiter.set({}, {.per_second = 1000, .burst = 5}, kStart);
  const Time later = kStart + seconds(1000);
  int sent = 0;
  for (; limiter.ready_at() <= later; ++sent) limiter.charge(1, later);
  EXPECT_EQ(sent, 5);
}

TEST(RateLimiter, OverTimeTheRateIsExact) {
  std::mt19937 random(1);
  RateLimiter limiter;
  limiter.set({.per_second = 3'000'000, .burst = 64 << 10}, {}, kStart);
  std::uint64_t sent = 0;
  Time now = kStart;
  while (now < kStart + seconds(100)) {
    now = std::max(now, limiter.ready_at());
    const std::uint64_t bytes = random() % 100000;
    limiter.charge(bytes, now);
    sent += bytes;
  }
  EXPECT_NEAR(static_cast<double>(sent), 300e6, 0.001 * 300e6);
}

TEST(RateLimiter, AChangedRateKeepsTheDebt) {
  RateLimiter limiter;
  limiter.set({.per_second = 1000, .burst = 1}, {}, kStart);
  limiter.charge(1000, kStart);
  limiter.set({.per_second = 1000, .burst = 1}, {}, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + milliseconds(999));
  limiter.set({.per_second = 2000, .burst = 1}, {}, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + milliseconds(499));
  EXPECT_LE(limiter.ready_at(), kStart + milliseconds(500) + Duration(100));
  limiter.set({}, {}, kStart);
  EXPECT_LE(limiter.ready_at(), kStart);
}

/// A rate that was too low by mistake delays no traffic once the operator has corrected it.
TEST(RateLimiter, ADebtOfASmallRateIsPaidAtALargerOne) {
  RateLimiter limiter;
  limiter.set({.per_second = 1, .burst = 1}, {}, kStart);
  limiter.charge(1'000'000, kStart);
  EXPECT_GT(limiter.ready_at(), kStart + std::chrono::hours(24));
  limiter.set({.per_second = 1'000'000'000, .burst = 1}, {}, kStart + seconds(1));
  EXPECT_LE(limiter.ready_at(), kStart + seconds(1) + milliseconds(1));
}

TEST(RateLimiter, HugeAmountsDoNotWrapAround) {
  RateLimiter limiter;
  limiter.set({.per_second = 1, .burst = ~std::uint64_t{0}}, {.per_second = 1, .burst = 1}, kStart);
  limiter.charge(1u << 31, kStart);
  EXPECT_GE(limiter.ready_at(), kStart);
}

}  // namespace
}  // namespace softhca::schedule
