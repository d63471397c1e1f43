// SPDX-License-Identifier: Apache-2.0

// The reaction point in virtual time, against the equations of the DCQCN paper (section 5.1) and
// the meaning of mlx5's parameters.
#include "daemon/roce/transport/reaction_point.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace softhca::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kMega = 1e6;

/// The parameters of the paper: g = 1/256, F = 5, alpha every 55 us, increase every 55 us.
CongestionParameters published() {
  CongestionParameters p;
  p.fixed.initial_alpha_value = 1023;
  p.fixed.dce_tcp_g = 1020;
  p.fixed.dce_tcp_rtt = 55;
  p.fixed.rate_reduce_monitor_period = 50;
  p.fixed.clamp_tgt_rate = true;
  p.fixed.rpg_min_dec_fac = 1;
  p.fixed.rpg_time_reset = 55;
  p.fixed.rpg_byte_reset = 10'000'000;
  p.fixed.rpg_threshold = 5;
  p.fixed.rpg_ai_rate = 40;
  p.fixed.rpg_hai_rate = 400;
  p.rpg_max_rate = 40000;
  return p;
}

class ReactionPointTest : public testing::Test {
 protected:
  void notify() { point.notify(p, now); }
  void pass(Duration time) {
    now += time;
    point.advance(p, now);
  }
  /// One step by time, the last at which nothing else is due.
  void step() { pass(microseconds(p.fixed.rpg_time_reset)); }
  void send(std::uint32_t bytes) { point.sent(p, bytes, now); }
  double rate() const { return point.rate() / kMega; }
  double target() const { return point.target() / kMega; }

  CongestionParameters p = published();
  ReactionPoint point;
  Time now{seconds(1)};
};

TEST_F(ReactionPointTest, IsNotLimitedBeforeTheFirstNotification) {
  pass(seconds(1));
  EXPECT_FALSE(point.limited());
  EXPECT_EQ(point.wake_at(), kNever);
}

TEST_F(ReactionPointTest, FirstNotificationCutsTheRateInHalf) {
  notify();
  EXPECT_TRUE(point.limited());
  EXPECT_DOUBLE_EQ(target(), 40000);
  EXPECT_DOUBLE_EQ(rate(), 40000 * (1 - 1023 / 1024.0 / 2));
}

TEST_F(ReactionPointTest, FirstNotificationSetsTheRateThatIsGivenForIt) {
  p.fixed.rate_to_set_on_first_cnp = 1000;
  notify();
  EXPECT_DOUBLE_EQ(rate(), 1000);
  EXPECT_DOUBLE_EQ(target(), 1000);
}

// Equation 1: alpha = (1 - g) alpha + g with a notification, equation 2: alpha = (1 - g) alpha
// without.
TEST_F(ReactionPointTest, AlphaFollowsTheNotifications) {
  p.fixed.initial_alpha_value = 512;
  p.fixed.rpg_time_reset = 1'000'000;
  notify();
  const double g = 1 / 256.0;
  double alpha = 0.5;
  EXPECT_DOUBLE_EQ(point.alpha(), alpha);
  pass(microseconds(54));
  EXPECT_DOUBLE_EQ(point.alpha(), alpha) << "before its period is over";
  pass(microseconds(1));
  alpha = (1 - g) * alpha + g;
  EXPECT_DOUBLE_EQ(point.alpha(), alpha);
  pass(microseconds(55));
  alpha *= 1 - g;
  EXPECT_DOUBLE_EQ(point.alpha(), alpha);
  pass(microseconds(550));
  alpha *= std::pow(1 - g, 10);
  EXPECT_DOUBLE_EQ(point.alpha(), alpha) << "periods passed over are made up for";
  notify();
  notify();
  pass(microseconds(55));
  alpha = (1 - g) * alpha + g;
  EXPECT_DOUBLE_EQ(point.alpha(), alpha) << "two notifications in a period count as one";
}

// Equation 1: the target becomes the rate, the rate loses alpha / 2.
TEST_F(ReactionPointTest, DecreaseDependsOnAlpha) {
  p.fixed.initial_alpha_value = 256;
  p.fixed.rpg_time_reset = 1'000'000;
  notify();
  EXPECT_DOUBLE_EQ(rate(), 40000 * (1 - 0.125));
  pass(microseconds(54));
  notify();
  EXPECT_DOUBLE_EQ(target(), 35000);
  EXPECT_DOUBLE_EQ(rate(), 35000 * (1 - 0.125));
}

TEST_F(ReactionPointTest, DecreasesOnceInAMonitoredPeriod) {
  notify();
  const double once = rate();
  pass(microseconds(10));
  notify();
  EXPECT_DOUBLE_EQ(rate(), once);
  pass(microseconds(39));
  EXPECT_DOUBLE_EQ(rate(), once);
  pass(microseconds(1));
  const double twice = once * (1 - 1023 / 1024.0 / 2);
  EXPECT_DOUBLE_EQ(rate(), twice) << "the one that came too soon counts when the period is over";
  pass(microseconds(50));
  EXPECT_DOUBLE_EQ(rate(), twice) << "and once";
}

TEST_F(ReactionPointTest, GdDividesTheDecrease) {
  p.fixed.rpg_gd = 12;
  notify();
  EXPECT_DOUBLE_EQ(rate(), 40000 * (1 - 1023 / 4096.0));
}

TEST_F(ReactionPointTest, DecreasesNoFurtherThanToTheLeastFactorAndRate) {
  p.fixed.rpg_min_dec_fac = 90;
  notify();
  EXPECT_DOUBLE_EQ(rate(), 36000);
  p.fixed.rpg_min_rate = 35000;
  p.fixed.rpg_min_dec_fac = 1;
  pass(microseconds(50));
  notify();
  EXPECT_DOUBLE_EQ(rate(), 35000);
}

// Equation 3: half the way to the target, F times.
TEST_F(ReactionPointTest, FastRecoveryHalvesTheDistance) {
  p.fixed.rate_to_set_on_first_cnp = 20000;
  notify();
  pass(microseconds(50));
  notify();
  double expected = rate();
  EXPECT_DOUBLE_EQ(target(), 20000);
  for (unsigned i = 0; i < p.fixed.rpg_threshold; ++i) {
    step();
    expected = (expected + 20000) / 2;
    EXPECT_DOUBLE_EQ(rate(), expected) << i;
    EXPECT_DOUBLE_EQ(target(), 20000) << i;
  }
}

// Equation 4: the target rises by R_AI.
TEST_F(ReactionPointTest, AdditiveIncreaseByTimeAlone) {
  p.fixed.rate_to_set_on_first_cnp = 20000;
  notify();
  for (unsigned i = 0; i < p.fixed.rpg_threshold; ++i) step();
  double expected = rate();
  for (unsigned i = 1; i <= 10; ++i) {
    step();
    EXPECT_DOUBLE_EQ(target(), 20000 + 40 * i);
    expected = (expected + target()) / 2;
    EXPECT_DOUBLE_EQ(rate(), expected);
  }
}

TEST_F(ReactionPointTest, BytesSentAreStepsToo) {
  p.fixed.rate_to_set_on_first_cnp = 20000;
  p.fixed.rpg_time_reset = 1'000'000;
  notify();
  for (unsigned i = 0; i < p.fixed.rpg_threshold; ++i) send(10'000'000);
  EXPECT_DOUBLE_EQ(target(), 20000);
  send(9'999'999);
  EXPECT_DOUBLE_EQ(target(), 20000);
  send(1);
  EXPECT_DOUBLE_EQ(target(), 20040);
}

// Both kinds of steps beyond F: by R_HAI, more each time.
TEST_F(ReactionPointTest, HyperIncreaseWhenBothKindsOfStepsGoOn) {
  p.fixed.rate_to_set_on_first_cnp = 10000;
  notify();
  for (unsigned i = 0; i < p.fixed.rpg_threshold; ++i) send(10'000'000);
  for (unsigned i = 0; i < p.fixed.rpg_threshold; ++i) step();
  EXPECT_DOUBLE_EQ(target(), 10000);
  step();
  EXPECT_DOUBLE_EQ(target(), 10040) << "steps by bytes have not gone on";
  send(10'000'000);
  EXPECT_DOUBLE_EQ(target(), 10440);
  step();
  EXPECT_DOUBLE_EQ(target(), 10840);
  send(10'000'000);
  EXPECT_DOUBLE_EQ(target(), 11640) << "the second: twice R_HAI";
}

TEST_F(ReactionPointTest, DecreaseStartsTheStepsAnew) {
  p.fixed.rate_to_set_on_first_cnp = 20000;
  notify();
  for (int i = 0; i < 10; ++i) step();
  notify();
  const double at = target();
  pass(microseconds(54));
  EXPECT_DOUBLE_EQ(target(), at);
  step();
  EXPECT_DOUBLE_EQ(target(), at) << "fast recovery again";
}

TEST_F(ReactionPointTest, TargetFollowsARateThatHasRisen) {
  p.fixed.clamp_tgt_rate = false;
  notify();
  pass(microseconds(50));
  notify();
  EXPECT_DOUBLE_EQ(target(), 40000) << "two decreases in a row";
  step();
  const double risen = rate();
  notify();
  EXPECT_DOUBLE_EQ(target(), risen);
  p.fixed.clamp_tgt_rate_after_time_inc = false;
  step();
  notify();
  EXPECT_DOUBLE_EQ(target(), risen) << "by time alone, and that does not count";
  pass(microseconds(50));
  send(10'000'000);
  const double by_bytes = rate();
  notify();
  EXPECT_DOUBLE_EQ(target(), by_bytes);
}

TEST_F(ReactionPointTest, RecoversAndIsNotLimitedAnyMore) {
  notify();
  pass(seconds(1));
  EXPECT_FALSE(point.limited());
  EXPECT_EQ(point.rate(), 0);
}

TEST_F(ReactionPointTest, LongSilenceIsMadeUpForInPortions) {
  p.fixed.rpg_time_reset = 1;
  p.fixed.rpg_ai_rate = 1;
  p.fixed.rate_to_set_on_first_cnp = 10000;
  notify();
  pass(seconds(3600));
  EXPECT_NEAR(target(), 10000 + 256 - 5, 0.01);
  for (int i = 0; i < 1000 && point.limited(); ++i) pass(Duration(1));
  EXPECT_FALSE(point.limited());
}

TEST_F(ReactionPointTest, PacketsLeaveAtTheRate) {
  p.fixed.rate_to_set_on_first_cnp = 800;  // 100 bytes a microsecond
  p.fixed.rpg_time_reset = 10'000'000;
  notify();
  std::uint64_t sent = 0;
  for (int i = 0; i < 100'000; ++i) {
    pass(microseconds(1));
    while (point.may_send(now)) {
      send(1000);
      sent += 1000;
    }
  }
  EXPECT_NEAR(static_cast<double>(sent), 100'000 * 100, 20'000);
}

TEST_F(ReactionPointTest, ASenderThatCameLateCatchesUpALittle) {
  p.fixed.rate_to_set_on_first_cnp = 800;
  p.fixed.rpg_time_reset = 10'000'000;
  notify();
  pass(seconds(1));
  int burst = 0;
  for (; point.may_send(now); ++burst) send(1000);
  EXPECT_EQ(burst, 11) << "100 us worth, and the one that is due";
  EXPECT_EQ(point.wake_at(), now + microseconds(10));
}

TEST_F(ReactionPointTest, KnowsTheLastPacketBeforeAWait) {
  p.fixed.rate_to_set_on_first_cnp = 800;
  p.fixed.rpg_time_reset = 10'000'000;
  notify();
  EXPECT_TRUE(point.may_send(now));
  EXPECT_TRUE(point.holds_after(1000, now));
  send(1000);
  EXPECT_FALSE(point.may_send(now));
  pass(microseconds(35));
  EXPECT_TRUE(point.may_send(now));
  EXPECT_EQ(point.wake_at(), kNever);
  EXPECT_FALSE(point.holds_after(1000, now));
}

}  // namespace
}  // namespace softhca::transport
