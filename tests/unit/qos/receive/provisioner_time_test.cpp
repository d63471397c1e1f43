// SPDX-License-Identifier: Apache-2.0

// Limits that follow use (D5), watermark and ranking with aging (D4), victims (D6).
#include "tests/unit/qos/receive/desk.hpp"

namespace softhca::receive {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SrqPolicy statistical(std::uint32_t limit) {
  SrqPolicy policy = limited(limit);
  policy.statistical = true;
  return policy;
}

/// Each interval queue pair `qp` uses up to `n` buffers and the consumer gives them back.
void intervals(Desk& desk, std::size_t qp, unsigned n, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    desk.now += milliseconds(101);
    unsigned granted = desk.messages(qp, n);
    while (granted-- > 0) desk.provisioner.posted(0);
  }
}

TEST(ProvisionerTime, LimitsOfActiveOnesAreRaised) {
  Desk desk(statistical(4), 64);
  intervals(desk, 0, 30, 40);
  EXPECT_GE(desk.limit(0), 30u);
  EXPECT_GT(desk.counters.raised.value(), 0u);
  EXPECT_LE(desk.limit(0), 64u);
}

TEST(ProvisionerTime, LimitsOfLessActiveOnesAreLoweredAndRecouped) {
  Desk desk(statistical(32), 64);
  desk.message(1);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.provisioner.unassigned(), 32u);
  intervals(desk, 0, 2, 30);
  EXPECT_LE(desk.limit(0), 5u);
  EXPECT_GE(desk.limit(0), 2u);
  EXPECT_GE(desk.counters.recouped.value(), 50u) << "of both";
  EXPECT_EQ(desk.provisioner.unassigned(), 64 - desk.limit(0));
  EXPECT_EQ(desk.counters.hard_refused.value(), 0u);
}

TEST(ProvisionerTime, WhatWasRecoupedComesBackAtOnce) {
  Desk desk(statistical(32), 64);
  intervals(desk, 0, 2, 30);
  ASSERT_LE(desk.limit(0), 5u);
  EXPECT_EQ(desk.messages(0, 32), 32u);
}

TEST(ProvisionerTime, RaisingNeverPassesTheBudget) {
  Desk desk(statistical(4), 16);
  for (unsigned i = 0; i < 200; ++i) {
    desk.now += milliseconds(101);
    std::uint32_t sum = 0;
    unsigned granted = 0;
    for (std::size_t qp = 0; qp < 3; ++qp) granted += desk.messages(qp, 16);
    for (std::size_t qp = 0; qp < 3; ++qp) sum += desk.limit(qp);
    EXPECT_LE(sum, 16u);
    while (granted-- > 0) desk.provisioner.posted(0);
  }
}

TEST(ProvisionerTime, ANewcomerGetsOneBufferAtLeast) {
  SrqPolicy policy = statistical(8);
  Desk desk(policy, 8);
  desk.messages(0, 4);
  EXPECT_EQ(desk.provisioner.unassigned(), 0u);
  EXPECT_EQ(desk.messages(1, 8), 1u);
}

TEST(ProvisionerTime, ALimitOfItsOwnStays) {
  Desk desk(statistical(32), 64);
  desk.provisioner.set_limit(desk.members[0], 20);
  intervals(desk, 0, 2, 30);
  EXPECT_EQ(desk.limit(0), 20u);
}

TEST(ProvisionerTime, IdleOnesAreForgotten) {
  Desk desk(limited(4), 8);
  desk.message(0);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.provisioner.accounts_in_use(), 1u);
  desk.now += seconds(10);
  desk.message(1);
  EXPECT_EQ(desk.provisioner.accounts_in_use(), 1u);
  EXPECT_EQ(desk.counters.recouped.value(), 4u);
}

SrqPolicy watched(std::uint32_t watermark) {
  SrqPolicy policy;
  policy.watermark = watermark;
  return policy;
}

TEST(ProvisionerTime, AQueueThatSwingsIsRankedAtTimes) {
  Desk desk(watched(4));
  unsigned rankings = 0;
  for (int i = 0; i < 50; ++i) {
    desk.now += milliseconds(2);
    rankings += desk.provisioner.alarm(desk.now, true) ? 1 : 0;
  }
  EXPECT_EQ(rankings, 10u);
}

TEST(ProvisionerTime, OffendersAreRankedByRecentDraw) {
  Desk desk(watched(4), 64);
  desk.messages(0, 30);  // long ago
  desk.now += seconds(5);
  for (std::size_t qp = 1; qp < 7; ++qp) desk.messages(qp, static_cast<unsigned>(qp));
  const auto alarm = desk.provisioner.alarm(desk.now, true);
  ASSERT_TRUE(alarm);
  ASSERT_EQ(alarm->count, Alarm::kMost);
  for (std::size_t i = 0; i < Alarm::kMost; ++i) {
    EXPECT_EQ(alarm->offenders[i].qpn, Desk::qpn(6 - i));
    EXPECT_EQ(alarm->offenders[i].held, 6 - i);
  }
  EXPECT_FALSE(alarm->drop);
}

TEST(ProvisionerTime, ScoresFadeByHalfLife) {
  Desk desk(watched(4), 64);
  desk.messages(0, 8);
  desk.now += seconds(3);
  desk.messages(1, 2);
  const auto alarm = desk.provisioner.alarm(desk.now, true);
  ASSERT_TRUE(alarm);
  ASSERT_EQ(alarm->count, 2u);
  EXPECT_EQ(alarm->offenders[0].qpn, Desk::qpn(1));
  EXPECT_FLOAT_EQ(alarm->offenders[1].score, 1.0f);
}

TEST(ProvisionerTime, TheLeastImportantIsGivenUpFirst) {
  SrqPolicy policy = watched(4);
  policy.on_exceed = OnExceed::kDropConnection;
  Desk desk(policy, 64);
  desk.members[2].importance = desk.members[3].importance = 1;
  desk.members[4].importance = 6;
  desk.messages(2, 20);
  desk.messages(4, 9);
  desk.messages(0, 2);
  desk.messages(1, 3);
  auto alarm = desk.provisioner.alarm(desk.now, true);
  ASSERT_TRUE(alarm && alarm->drop);
  EXPECT_EQ(*alarm->drop, Desk::qpn(1)) << "of the two least important that with the higher score";
}

TEST(ProvisionerTime, AmongEqualsNobodyIsGivenUp) {
  SrqPolicy policy = watched(4);
  policy.on_exceed = OnExceed::kDropConnection;
  Desk desk(policy, 64);
  desk.messages(0, 20);
  desk.messages(1, 2);
  const auto alarm = desk.provisioner.alarm(desk.now, true);
  ASSERT_TRUE(alarm);
  EXPECT_FALSE(alarm->drop);
}

// --- quarantine

SrqPolicy quarantining(std::uint32_t limit) { return limited(limit, OnExceed::kQuarantine); }

TEST(Quarantine, OneBufferAtATimeUntilTheSurplusIsGivenBack) {
  Desk desk(quarantining(6), 64);
  EXPECT_EQ(desk.messages(0, 6), 6u);
  EXPECT_EQ(desk.message(0), Decision::kQuarantined);
  EXPECT_TRUE(desk.provisioner.is_quarantined(desk.members[0]));
  EXPECT_EQ(desk.counters.quarantined.value(), 1u);
  EXPECT_EQ(desk.message(0), Decision::kRefused) << "told once";
  desk.now += kInterval;
  for (int i = 0; i < 2; ++i) desk.provisioner.posted(0);
  EXPECT_EQ(desk.message(0), Decision::kRefused) << "4 are more than half";
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.message(0), Decision::kGrantedAgain);
  EXPECT_FALSE(desk.provisioner.is_quarantined(desk.members[0]));
  EXPECT_EQ(desk.message(0), Decision::kGranted);
  EXPECT_EQ(desk.counters.quarantines.value(), 1u);
  EXPECT_EQ(desk.counters.quarantined.value(), 0u);
}

TEST(Quarantine, LastsAnIntervalAtLeast) {
  Desk desk(quarantining(4), 64);
  desk.messages(0, 5);
  for (int i = 0; i < 4; ++i) desk.provisioner.posted(0);
  EXPECT_EQ(desk.message(0), Decision::kGranted) << "one";
  EXPECT_EQ(desk.message(0), Decision::kRefused) << "and no more";
  desk.now += kInterval;
  EXPECT_EQ(desk.message(0), Decision::kGrantedAgain);
}

/// The account is looked at with each of its own messages; that must not begin the interval anew.
TEST(Quarantine, OfOneThatAlwaysTriesEnds) {
  Desk desk(quarantining(4), 64);
  desk.messages(0, 5);
  for (int i = 0; i < 2; ++i) desk.provisioner.posted(0);
  unsigned refused = 0;
  while (desk.message(0) == Decision::kRefused && refused < 1000) {
    desk.now += milliseconds(7);
    ++refused;
  }
  EXPECT_LT(refused, 20u);
}

TEST(Quarantine, OthersGoOn) {
  Desk desk(quarantining(4), 16);
  desk.messages(0, 9);
  EXPECT_EQ(desk.held(0), 4u);
  EXPECT_EQ(desk.messages(1, 4), 4u);
}

TEST(Quarantine, TheOperatorEndsIt) {
  Desk desk(quarantining(4), 64);
  desk.messages(0, 5);
  desk.provisioner.set_limit(desk.members[0], 8);
  EXPECT_EQ(desk.message(0), Decision::kGranted);
  desk.messages(0, 9);
  EXPECT_EQ(desk.counters.quarantined.value(), 1u);
  desk.provisioner.set_policy(limited(9));
  EXPECT_EQ(desk.counters.quarantined.value(), 0u);
}

TEST(Quarantine, OfAQueuePairThatGoesIsOver) {
  Desk desk(quarantining(1), 8);
  desk.messages(0, 2);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.counters.quarantined.value(), 1u);
  desk.provisioner.leave(desk.members[0]);
  EXPECT_EQ(desk.counters.quarantined.value(), 0u);
  desk.messages(1, 2);
  desk.provisioner.retire();
  EXPECT_EQ(desk.counters.quarantined.value(), 0u);
}

TEST(Quarantine, AtTheWatermarkTheOneThatHoldsMostWaits) {
  SrqPolicy policy = watched(4);
  policy.on_exceed = OnExceed::kQuarantine;
  Desk desk(policy, 64);
  desk.messages(0, 20);
  desk.messages(1, 2);
  const auto alarm = desk.provisioner.alarm(desk.now, true);
  ASSERT_TRUE(alarm && alarm->quarantine);
  EXPECT_EQ(*alarm->quarantine, Desk::qpn(0));
  EXPECT_EQ(desk.message(0), Decision::kRefused);
  EXPECT_EQ(desk.message(1), Decision::kGranted);
  desk.now += kInterval;
  for (int i = 0; i < 5; ++i) desk.provisioner.posted(0);
  EXPECT_EQ(desk.message(0), Decision::kGrantedAgain) << "15 of 64, half of an equal share is 16";
}

TEST(Quarantine, TheProgramsLimitPutsNobodyThere) {
  SrqPolicy policy = watched(4);
  policy.on_exceed = OnExceed::kQuarantine;
  Desk desk(policy, 64);
  desk.messages(0, 20);
  desk.messages(1, 2);
  const auto alarm = desk.provisioner.alarm(desk.now, false);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->count, 2u);
  EXPECT_FALSE(alarm->quarantine);
}

// --- terms by rule

TEST(Terms, HoldInsteadOfThePolicyAndBelowTheQueuePairsOwn) {
  Desk desk(limited(4), 64);
  desk.provisioner.set_terms(desk.members[0], {.limit = 7});
  desk.provisioner.set_terms(desk.members[1], {.kind = LimitKind::kSoft});
  EXPECT_EQ(desk.messages(0, 20), 7u);
  EXPECT_EQ(desk.messages(1, 20), 20u);
  EXPECT_EQ(desk.messages(2, 20), 4u);
  desk.provisioner.set_limit(desk.members[0], 9);
  EXPECT_EQ(desk.messages(0, 20), 2u);
  desk.provisioner.set_terms(desk.members[0], {.limit = 30});
  EXPECT_EQ(desk.limit(0), 9u);
  desk.provisioner.set_limit(desk.members[0], Member::kByPolicy);
  EXPECT_EQ(desk.limit(0), 30u);
}

TEST(Terms, SayWhatHappensBeyondTheLimit) {
  Desk desk(limited(2), 64);
  desk.provisioner.set_terms(desk.members[0], {.on_exceed = OnExceed::kQuarantine});
  desk.provisioner.set_terms(desk.members[1], {.on_exceed = OnExceed::kDropConnection});
  for (std::size_t qp = 0; qp < 3; ++qp) desk.messages(qp, 2);
  EXPECT_EQ(desk.message(0), Decision::kQuarantined);
  EXPECT_EQ(desk.message(1), Decision::kDropConnection);
  EXPECT_EQ(desk.message(2), Decision::kRefusedFirst);
}

}  // namespace
}  // namespace softhca::receive
