// SPDX-License-Identifier: Apache-2.0

// The thresholds that tell a potential deadlock.
#include "daemon/qos/schedule/overflow_threshold.hpp"

#include <gtest/gtest.h>

namespace softhca::schedule {
namespace {

TEST(EntryThreshold, FollowsTheLoadWithinItsBounds) {
  const DoorbellConfig fixed{.entries = 1000, .threshold = 100};
  const DoorbellConfig adaptive{.entries = 1000, .threshold = 100, .adaptive = true};
  EntryThreshold threshold;
  Time now{};
  const auto run = [&](std::uint32_t in_use, int intervals) {
    for (int i = 0; i < intervals; ++i) {
      threshold.sample(now, in_use);
      threshold.sample(now, 0);  // the same interval: not looked at
      now += EntryThreshold::kInterval;
    }
  };
  run(100, 1000);
  EXPECT_EQ(threshold.in_force(adaptive), 100u);
  run(800, 1000);
  EXPECT_NEAR(threshold.in_force(adaptive), 200, 1);
  EXPECT_EQ(threshold.in_force(fixed), 100u);
  run(100000, 1000);
  EXPECT_EQ(threshold.in_force(adaptive), 500u);
  run(0, 1000);
  EXPECT_EQ(threshold.in_force(adaptive), 100u);
}

TEST(DedicatedWatch, StuckWhenAllWaitAndTooFewAreFree) {
  const DoorbellConfig config{.dedicated_threshold = 2};
  DedicatedWatch watch;
  for (int i = 0; i < 3; ++i) watch.taken();
  EXPECT_FALSE(watch.stuck(config, 4));
  for (int i = 0; i < 2; ++i) watch.waits();
  EXPECT_FALSE(watch.stuck(config, 4));  // one is still being sent
  watch.waits();
  EXPECT_TRUE(watch.stuck(config, 4));
  EXPECT_EQ(watch.free(4), 1u);
  EXPECT_FALSE(watch.stuck(config, 5));
  EXPECT_EQ(watch.free(2), 0u);  // the limit has shrunk
  EXPECT_FALSE(watch.stuck({.dedicated_threshold = 0}, 3));
  watch.released(true, std::chrono::microseconds(1));
  EXPECT_FALSE(watch.stuck(config, 4));
}

TEST(DedicatedWatch, ThresholdFollowsHowLongTheyAreHeld) {
  const DoorbellConfig fixed{.dedicated_threshold = 2};
  const DoorbellConfig adaptive{.dedicated_threshold = 2, .adaptive = true};
  DedicatedWatch watch;
  EXPECT_EQ(watch.threshold(adaptive, 64), 2u);
  const auto run = [&](Duration held, int commands) {
    for (int i = 0; i < commands; ++i) {
      watch.taken();
      watch.released(false, held);
    }
  };
  run(std::chrono::microseconds(10), 1000);
  EXPECT_EQ(watch.threshold(adaptive, 64), 2u);
  run(std::chrono::microseconds(100), 20);
  EXPECT_GT(watch.threshold(adaptive, 64), 6u);
  EXPECT_EQ(watch.threshold(fixed, 64), 2u);
  run(std::chrono::seconds(1), 20);
  EXPECT_EQ(watch.threshold(adaptive, 16), 8u);  // half of all
  run(Duration(0), 1000);
  EXPECT_EQ(watch.threshold(adaptive, 64), 2u);
}

}  // namespace
}  // namespace softhca::schedule
