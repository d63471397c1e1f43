// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/idle_policy.hpp"

#include <gtest/gtest.h>

namespace softhca::engine {
namespace {

constexpr Duration kPrompt = std::chrono::microseconds(3), kLate = std::chrono::milliseconds(4);

class IdlePolicyTest : public ::testing::Test {
 protected:
  void yield(Duration took, int times = 1) {
    for (int i = 0; i < times; ++i) policy.yielded(now += took, took);
  }
  IdlePolicy policy;
  Time now{std::chrono::seconds(1)};
};

TEST_F(IdlePolicyTest, SleepsBesideAProgramThatDoesNotYieldBack) {
  yield(kLate);
  EXPECT_FALSE(policy.sleeps(now)) << "once may be chance";
  yield(kPrompt, 6);
  yield(kLate);
  EXPECT_TRUE(policy.sleeps(now));
  EXPECT_TRUE(policy.sleeps(now + IdlePolicy::kSleeping - Duration(1)));
  now += IdlePolicy::kSleeping;
  EXPECT_FALSE(policy.sleeps(now)) << "it tries again";
  yield(kLate);
  EXPECT_FALSE(policy.sleeps(now)) << "it counts anew";
  yield(kLate);
  EXPECT_TRUE(policy.sleeps(now));
}

TEST_F(IdlePolicyTest, CountsTheTimeOfLongYieldsOnly) {
  yield(kPrompt, 100);
  yield(IdlePolicy::kLongYield);
  EXPECT_EQ(policy.lost().value(), 0u);
  yield(kLate, 3);
  EXPECT_EQ(policy.lost().value(), static_cast<std::uint64_t>((3 * kLate).count()));
}

TEST_F(IdlePolicyTest, GoesOnYieldingBesideProgramsThatYield) {
  for (int i = 0; i < 100; ++i) {
    yield(IdlePolicy::kLongYield, 7);
    yield(kLate);
    EXPECT_FALSE(policy.sleeps(now));
  }
}

}  // namespace
}  // namespace softhca::engine
