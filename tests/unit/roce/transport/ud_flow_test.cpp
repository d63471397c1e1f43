// SPDX-License-Identifier: Apache-2.0

// A flow of datagrams in virtual time: what the peer tells decides how fast it goes.
#include "daemon/roce/transport/ud_flow.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace softhca::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kSecret = 0x123456789abcdef0;
constexpr std::uint32_t kBytes = 1934;  ///< 2000 with the headers
constexpr double kWhole = 2000;

class DatagramFlowTest : public testing::Test {
 protected:
  /// Sends `n` datagrams of which `lost` do not come, so far apart.
  void send(unsigned n, unsigned lost = 0, Duration apart = microseconds(10)) {
    for (unsigned i = 0; i < n; ++i) {
      now += apart;
      (void)flow.may_send(rules, now);
      flow.sent(kBytes, now);
      if (i < lost) continue;
      ++came.packets;
      came.bytes += kBytes;
    }
  }
  /// Asks when it is time to; false: no answer comes. The answer takes so long.
  bool ask(Duration takes = microseconds(50)) {
    if (!flow.wants_to_ask(now)) now += milliseconds(100);
    EXPECT_TRUE(flow.wants_to_ask(now));
    const std::uint64_t id = flow.question();
    flow.asked(now);
    const DatagramReceipt receipt{.counts = counts, .since = since, .received = came};
    now += takes;
    return flow.answer(id, receipt, rules, now);
  }
  /// Sends a probe that gets no answer.
  void lose_question() {
    now += milliseconds(300);
    flow.asked(now);
  }
  /// Runs an interval: 100 datagrams in 1 ms, then a probe.
  void interval(unsigned lost = 0, Duration takes = microseconds(50)) {
    send(100, lost);
    ASSERT_TRUE(ask(takes));
  }
  /// The peer answers, and the rate doubles until it is forgotten.
  void begin() {
    send(1);
    ASSERT_TRUE(ask());
    for (int i = 0; i < 50 && flow.limited(); ++i) interval();
    ASSERT_FALSE(flow.limited());
  }
  /// Bytes per second of an interval.
  static double offered() { return 100 * kWhole / 1e-3; }

  UdFlowRules rules{.flight = {}, .least_rate = 125e3, .most_rate = 1250e6};
  UdFlow flow{kSecret};
  DatagramAmount came;
  bool counts = true;
  std::uint32_t since = 7;
  Time now{seconds(1)};
};

TEST_F(DatagramFlowTest, IsNotLimitedBeforeLosses) {
  begin();
  EXPECT_TRUE(flow.is_answered());
  for (int i = 0; i < 100; ++i) interval();
  EXPECT_FALSE(flow.limited());
}

TEST_F(DatagramFlowTest, LossWithAQueueLowersTheRate) {
  begin();
  interval(1, milliseconds(1));
  EXPECT_NEAR(flow.rate(), offered() * 0.7, offered() * 0.05);
}

TEST_F(DatagramFlowTest, LossWithoutAQueueIsBorne) {
  begin();
  for (int i = 0; i < 20; ++i) interval(5);
  EXPECT_FALSE(flow.limited());
}

TEST_F(DatagramFlowTest, DelayWithoutLossChangesNothing) {
  begin();
  for (int i = 0; i < 20; ++i) interval(0, milliseconds(10));
  EXPECT_FALSE(flow.limited());
}

TEST_F(DatagramFlowTest, MuchLossWithoutAQueueLowersIt) {
  begin();
  interval(20);
  EXPECT_NEAR(flow.rate(), offered() * 0.7, offered() * 0.05);
}

TEST_F(DatagramFlowTest, FewDatagramsAreJudgedTogether) {
  begin();
  for (int i = 0; i < 12; ++i) {
    send(4, i == 5, microseconds(250));
    ASSERT_TRUE(ask());
  }
  EXPECT_FALSE(flow.limited()) << "one of 48";
}

TEST_F(DatagramFlowTest, NoMoreIsSentThanGetsThrough) {
  begin();
  interval(90, milliseconds(1));
  EXPECT_NEAR(flow.rate(), offered() / 10, offered() * 0.01);
}

TEST_F(DatagramFlowTest, LossesOfOneFlightCountOnce) {
  begin();
  interval(1, milliseconds(1));
  const double rate = flow.rate();
  // These were sent in part before the rate was lowered.
  interval(1, milliseconds(1));
  EXPECT_EQ(flow.rate(), rate);
  interval(1, milliseconds(1));
  EXPECT_LT(flow.rate(), rate);
}

TEST_F(DatagramFlowTest, GrowsByAStepAndAPartInARoundTripWhileItIsHeld) {
  begin();
  interval(1, milliseconds(1));
  interval();
  const double rate = flow.rate();
  interval();
  const double grown = rules.step + rate / (2 * rules.flight.flight_steps);
  EXPECT_NEAR(flow.rate(), rate + grown, grown * 0.1);
  // Slower than it may: what it could do is not known.
  const double held = flow.rate();
  now = flow.next();
  for (int i = 0; i < 5; ++i) {
    send(10, 0, microseconds(200));
    ASSERT_TRUE(ask());
  }
  EXPECT_LE(flow.rate(), held + grown);
}

TEST_F(DatagramFlowTest, IsForgottenAtTheMost) {
  begin();
  rules.most_rate = offered();
  interval(1, milliseconds(1));
  ASSERT_TRUE(flow.limited());
  for (int i = 0; i < 10000 && flow.limited(); ++i) interval();
  EXPECT_FALSE(flow.limited());
}

TEST_F(DatagramFlowTest, PacesDatagrams) {
  begin();
  interval(1, milliseconds(1));
  now = flow.next();
  const Time start = now;
  double sent = 0;
  while (now < start + milliseconds(10)) {
    if (flow.may_send(rules, now)) {
      flow.sent(kBytes, now);
      sent += kWhole;
    } else {
      EXPECT_GT(flow.next(), now);
      now = flow.next();
    }
  }
  EXPECT_NEAR(sent, flow.rate() * 0.01, flow.rate() * 0.001);
}

TEST_F(DatagramFlowTest, SilenceSlowsDownAndAnswersBringHalfBack) {
  begin();
  for (int i = 0; i < 8; ++i) {
    send(100);
    lose_question();
  }
  const double silent = flow.rate();
  EXPECT_TRUE(flow.limited());
  EXPECT_LT(silent, offered() / 4);
  ASSERT_TRUE(ask());
  for (int i = 0; i < 20; ++i) interval();
  EXPECT_GE(flow.rate(), offered() / 2 * 0.9);
}

TEST_F(DatagramFlowTest, NeverLessThanTheLeast) {
  begin();
  for (int i = 0; i < 25; ++i) {
    send(100);
    lose_question();
  }
  EXPECT_EQ(flow.rate(), rules.least_rate);
}

TEST_F(DatagramFlowTest, APeerThatIsSilentForLongIsNotFollowed) {
  begin();
  for (int i = 0; i < 60; ++i) {
    send(100);
    lose_question();
  }
  EXPECT_FALSE(flow.limited());
  EXPECT_FALSE(flow.is_answered());
}

TEST_F(DatagramFlowTest, WhoNeverAnswersIsAskedEverMoreSeldom) {
  const Time start = now;
  unsigned asked = 0;
  while (now < start + seconds(60)) {
    now += milliseconds(1);
    (void)flow.may_send(rules, now);
    flow.sent(kBytes, now);
    if (!flow.wants_to_ask(now)) continue;
    flow.asked(now);
    ++asked;
  }
  EXPECT_LE(asked, 32u + 17);
  EXPECT_FALSE(flow.limited());
}

TEST_F(DatagramFlowTest, WhoDoesNotCountIsNotFollowed) {
  counts = false;
  send(100, 50);
  ASSERT_TRUE(ask());
  send(100, 50);
  ASSERT_TRUE(ask());
  EXPECT_FALSE(flow.is_answered());
  EXPECT_FALSE(flow.limited());
  unsigned asked = 0;
  for (const Time end = now + seconds(10); now < end; now += milliseconds(1)) {
    flow.sent(kBytes, now);
    if (flow.wants_to_ask(now)) asked += ask();
  }
  EXPECT_LE(asked, 10u);
}

TEST_F(DatagramFlowTest, ACountThatBeganAnewSaysNothingOfBefore) {
  begin();
  came = {};
  ++since;
  send(100);
  ASSERT_TRUE(ask(milliseconds(1)));
  EXPECT_FALSE(flow.limited());
  interval();
  EXPECT_FALSE(flow.limited());
}

/// Numbers are not to be guessed, and an answer counts once.
TEST_F(DatagramFlowTest, OtherAnswersAreRefused) {
  begin();
  send(100);
  now += milliseconds(100);
  const std::uint64_t id = flow.question();
  flow.asked(now);
  const DatagramReceipt nothing_came{.counts = true, .since = since, .received = {}};
  for (const std::uint64_t other : {id + 1, id - kSecret, id - 1, id - 100, std::uint64_t{0}})
    EXPECT_FALSE(flow.answer(other, nothing_came, rules, now)) << other;
  EXPECT_FALSE(flow.limited());
  EXPECT_TRUE(flow.answer(id, nothing_came, rules, now));
  EXPECT_FALSE(flow.answer(id, nothing_came, rules, now));
}

TEST_F(DatagramFlowTest, ANotificationLowersItOncePerFlight) {
  begin();
  send(100);
  ASSERT_TRUE(flow.notify(rules, now));
  EXPECT_NEAR(flow.rate(), offered() * 0.7, offered() * 0.1);
  const double rate = flow.rate();
  EXPECT_TRUE(flow.notify(rules, now));
  EXPECT_EQ(flow.rate(), rate);
}

TEST_F(DatagramFlowTest, ANotificationOfAPeerThatTellsNothingIsNone) {
  send(100);
  const double rate = flow.rate();
  EXPECT_FALSE(flow.notify(rules, now));
  EXPECT_EQ(flow.rate(), rate);
}

}  // namespace
}  // namespace softhca::transport
