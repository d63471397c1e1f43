// Limits that follow use (D5), watermark and score board with aging (D4), victims (D6).
#include "tests/unit/receive/desk.hpp"

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

TEST(ProvisionerTime, WatermarkIsToldOncePerFall) {
  Desk desk(watched(4));
  EXPECT_TRUE(watched(4).wanted());
  EXPECT_FALSE(desk.provisioner.watch(5, desk.now));
  EXPECT_TRUE(desk.provisioner.watch(4, desk.now));
  EXPECT_FALSE(desk.provisioner.watch(0, desk.now));
  desk.now += seconds(1);
  EXPECT_FALSE(desk.provisioner.watch(4, desk.now));
  EXPECT_FALSE(desk.provisioner.watch(5, desk.now));
  EXPECT_TRUE(desk.provisioner.watch(3, desk.now));
  EXPECT_EQ(desk.counters.watermarks.value(), 2u);
}

TEST(ProvisionerTime, AQueueThatSwingsIsRankedAtTimes) {
  Desk desk(watched(4));
  unsigned rankings = 0;
  for (int i = 0; i < 100; ++i) {
    desk.now += milliseconds(1);
    rankings += desk.provisioner.watch(i % 2 == 0 ? 4 : 5, desk.now) ? 1 : 0;
  }
  EXPECT_EQ(desk.counters.watermarks.value(), 50u);
  EXPECT_EQ(rankings, 10u);
}

TEST(ProvisionerTime, OffendersAreRankedByRecentDraw) {
  Desk desk(watched(4), 64);
  desk.messages(0, 30);  // long ago
  desk.now += seconds(5);
  for (std::size_t qp = 1; qp < 7; ++qp) desk.messages(qp, static_cast<unsigned>(qp));
  const auto alarm = desk.provisioner.watch(4, desk.now);
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
  const auto alarm = desk.provisioner.watch(4, desk.now);
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
  auto alarm = desk.provisioner.watch(4, desk.now);
  ASSERT_TRUE(alarm && alarm->drop);
  EXPECT_EQ(*alarm->drop, Desk::qpn(1)) << "of the two least important that with the higher score";
}

TEST(ProvisionerTime, AmongEqualsNobodyIsGivenUp) {
  SrqPolicy policy = watched(4);
  policy.on_exceed = OnExceed::kDropConnection;
  Desk desk(policy, 64);
  desk.messages(0, 20);
  desk.messages(1, 2);
  const auto alarm = desk.provisioner.watch(4, desk.now);
  ASSERT_TRUE(alarm);
  EXPECT_FALSE(alarm->drop);
}

}  // namespace
}  // namespace softhca::receive
