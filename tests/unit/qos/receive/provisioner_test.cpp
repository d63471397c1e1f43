// SPDX-License-Identifier: Apache-2.0

// Limits, credit and what becomes of a message that exceeds them (D1, D2, D6).
#include "tests/unit/qos/receive/desk.hpp"

namespace softhca::receive {
namespace {

TEST(Provisioner, NoLimitRefusesNobody) {
  Desk desk(limited(0));
  EXPECT_FALSE(limited(0).wanted());
  EXPECT_EQ(desk.messages(0, 16), 16u);
  EXPECT_EQ(desk.counters.hard_refused.value(), 0u);
}

TEST(Provisioner, HardLimitRefusesOnlyTheOneThatExceeds) {
  Desk desk(limited(3));
  EXPECT_EQ(desk.messages(0, 10), 3u);
  EXPECT_EQ(desk.messages(1, 3), 3u);
  EXPECT_EQ(desk.counters.hard_refused.value(), 7u);
  EXPECT_EQ(desk.held(0), 3u);
}

TEST(Provisioner, ARefusalIsToldOnceUntilItIsWithinItsLimitAgain) {
  Desk desk(limited(1));
  EXPECT_EQ(desk.message(0), Decision::kGranted);
  EXPECT_EQ(desk.message(0), Decision::kRefusedFirst);
  EXPECT_EQ(desk.message(0), Decision::kRefused);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.message(0), Decision::kGranted);
  EXPECT_EQ(desk.message(0), Decision::kRefusedFirst);
}

TEST(Provisioner, SoftLimitTellsAndGrants) {
  SrqPolicy policy = limited(2);
  policy.kind = LimitKind::kSoft;
  Desk desk(policy);
  EXPECT_EQ(desk.messages(0, 2), 2u);
  EXPECT_EQ(desk.message(0), Decision::kGrantedOverSoftLimit);
  EXPECT_EQ(desk.message(0), Decision::kGranted);
  EXPECT_EQ(desk.counters.soft_exceeded.value(), 1u);
  EXPECT_EQ(desk.held(0), 4u);
}

TEST(Provisioner, APostReplenishesTheOneWhoseBufferItIs) {
  Desk desk(limited(2));
  desk.message(0, 0xa0);
  desk.message(0, 0xa1);
  desk.message(1, 0xb0);
  desk.provisioner.posted(0xb0);
  EXPECT_EQ(desk.held(0), 2u);
  EXPECT_EQ(desk.held(1), 0u);
  desk.provisioner.posted(0xa1);
  EXPECT_EQ(desk.held(0), 1u);
}

TEST(Provisioner, OnlyACompletedBufferIsReplenished) {
  Desk desk(limited(1));
  ASSERT_EQ(desk.provisioner.decide(desk.members[0], Qpn(100), desk.now), Decision::kGranted);
  desk.provisioner.drawn(desk.members[0], desk.now);
  desk.provisioner.posted(0);  // the queue grows
  EXPECT_EQ(desk.held(0), 1u);
  desk.provisioner.completed(desk.members[0], 0);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.held(0), 0u);
}

TEST(Provisioner, ACompletionNobodyDrewForIsIgnored) {
  Desk desk(limited(1));
  desk.provisioner.completed(desk.members[0], 0);
  desk.message(1);
  desk.provisioner.completed(desk.members[1], 0);
  desk.provisioner.completed(desk.members[1], 0);
  EXPECT_EQ(desk.provisioner.unreplenished(), 1u);
}

TEST(Provisioner, AConsumerThatPostsMoreThanItGotGainsNothing) {
  Desk desk(limited(1));
  for (int i = 0; i < 100; ++i) desk.provisioner.posted(i);
  EXPECT_EQ(desk.messages(0, 5), 1u);
}

/// More buffers completed than the queue has: only a consumer that breaks the rules gets there.
TEST(Provisioner, HoldingsBeyondTheQueueDropTheOldest) {
  Desk desk(limited(0), 4);
  for (std::size_t qp = 0; qp < 4; ++qp) EXPECT_EQ(desk.message(qp), Decision::kGranted);
  EXPECT_EQ(desk.message(4), Decision::kRefused) << "every account holds something";
  EXPECT_EQ(desk.messages(3, 5), 5u);
  EXPECT_EQ(desk.held(0) + desk.held(1) + desk.held(2), 0u);
  EXPECT_EQ(desk.held(3), 4u);
  EXPECT_EQ(desk.provisioner.unreplenished(), 4u);
}

TEST(Provisioner, RaiseTakesFromWhatIsUnassignedAndThenRefuses) {
  Desk desk(limited(4, OnExceed::kRaise), 10);
  desk.message(1);  // 4 of 10 are assigned to it
  EXPECT_EQ(desk.messages(0, 10), 6u);
  EXPECT_EQ(desk.limit(0), 6u);
  EXPECT_EQ(desk.counters.raised.value(), 2u);
  EXPECT_EQ(desk.provisioner.unassigned(), 0u);
  EXPECT_EQ(desk.messages(1, 3), 3u);
}

TEST(Provisioner, ReplenishLendsAndLeavesTheLimit) {
  Desk desk(limited(4, OnExceed::kReplenish), 10);
  desk.message(1);
  EXPECT_EQ(desk.messages(0, 10), 6u);
  EXPECT_EQ(desk.limit(0), 4u);
  EXPECT_EQ(desk.counters.replenished.value(), 2u);
  EXPECT_EQ(desk.provisioner.unassigned(), 0u);
  desk.provisioner.posted(0);  // the oldest: of queue pair 1
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.held(0), 5u);
  EXPECT_EQ(desk.provisioner.unassigned(), 1u);
  EXPECT_EQ(desk.messages(0, 10), 1u);
}

TEST(Provisioner, OvercommitWidensTheBudget) {
  SrqPolicy policy = limited(4, OnExceed::kRaise);
  policy.overcommit = 1.5;
  Desk desk(policy, 10);
  desk.message(1);
  desk.message(2);  // 8 of 15 are assigned to these
  EXPECT_EQ(desk.messages(0, 8), 7u);
}

TEST(Provisioner, DropConnection) {
  Desk desk(limited(1, OnExceed::kDropConnection));
  desk.message(0);
  EXPECT_EQ(desk.message(0), Decision::kDropConnection);
  EXPECT_EQ(desk.held(0), 1u);
}

TEST(Provisioner, LimitsByImportance) {
  SrqPolicy policy = limited(1);
  policy.limits[5] = 3;
  Desk desk(policy);
  desk.members[1].importance = 5;
  EXPECT_EQ(desk.messages(0, 5), 1u);
  EXPECT_EQ(desk.messages(1, 5), 3u);
}

TEST(Provisioner, LimitsChangeLive) {
  Desk desk(limited(2));
  EXPECT_EQ(desk.messages(0, 5), 2u);
  desk.provisioner.set_limit(desk.members[0], 4);
  desk.provisioner.set_limit(desk.members[1], 1);
  EXPECT_EQ(desk.messages(0, 5), 2u);
  EXPECT_EQ(desk.messages(1, 5), 1u);
  // Below what it holds: nothing is taken away, nothing more is given.
  desk.provisioner.set_limit(desk.members[0], 3);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.messages(0, 5), 0u);
  desk.provisioner.posted(0);
  EXPECT_EQ(desk.messages(0, 5), 1u);
  // A new policy for all others.
  desk.provisioner.set_policy(limited(5));
  EXPECT_EQ(desk.limit(0), 3u);
  EXPECT_EQ(desk.messages(2, 9), 5u);
  desk.provisioner.set_limit(desk.members[0], Member::kByPolicy);
  EXPECT_EQ(desk.limit(0), 5u);
  desk.provisioner.set_limit(desk.members[0], 0);
  EXPECT_EQ(desk.messages(0, 9), 9u);
}

TEST(Provisioner, AbsurdLimitsDoNotOverflow) {
  SrqPolicy policy = limited(0xffffffff, OnExceed::kRaise);
  policy.overcommit = 1e30;
  Desk desk(policy);
  for (std::size_t qp = 0; qp < 8; ++qp) EXPECT_EQ(desk.messages(qp, 2), 2u);
  EXPECT_EQ(desk.limit(0), 16u);
}

TEST(Provisioner, WhoLeavesKeepsItsBuffersAndNothingElse) {
  Desk desk(limited(4), 8);
  desk.messages(0, 3);
  desk.message(1, 1);
  desk.provisioner.leave(desk.members[0]);
  desk.provisioner.leave(desk.members[5]);
  EXPECT_EQ(desk.provisioner.accounts_in_use(), 2u);
  EXPECT_EQ(desk.held(0), 0u);
  // Its successor begins anew, and gets nothing back for it.
  desk.messages(0, 1);
  for (int i = 0; i < 3; ++i) desk.provisioner.posted(0);
  EXPECT_EQ(desk.provisioner.accounts_in_use(), 2u);
  EXPECT_EQ(desk.held(0), 1u);
  desk.provisioner.posted(0);
  desk.provisioner.posted(1);
  EXPECT_EQ(desk.held(0) + desk.held(1), 0u);
}

TEST(Provisioner, WhatIsHeldIsCountedForTheTenant) {
  ProvisioningCounters counters;
  Provisioner first(8, limited(4), counters);
  Provisioner second(8, limited(4), counters);
  Member member;
  const auto draw = [&](Provisioner& queue, Member& who) {
    ASSERT_TRUE(is_granted(queue.decide(who, Qpn(7), Time{})));
    queue.drawn(who, Time{});
    queue.completed(who, 0);
  };
  Member other;
  draw(first, member);
  draw(first, member);
  draw(second, other);
  EXPECT_EQ(first.figures().held, 2u);
  EXPECT_EQ(counters.held.value(), 3u);
  first.posted(0);
  EXPECT_EQ(counters.held.value(), 2u);
  EXPECT_EQ(counters.held_high_water.value(), 3u);
  first.retire();
  EXPECT_EQ(counters.held.value(), 1u);
}

TEST(Provisioner, TheRankingNamesWhoDrewMost) {
  Desk desk(limited(4), 16);
  EXPECT_EQ(desk.provisioner.ranking(desk.now).count, 0u);
  desk.messages(2, 3);
  desk.messages(0, 1);
  desk.messages(1, 2);
  desk.provisioner.posted(0);  // the oldest, of 2
  const Alarm board = desk.provisioner.ranking(desk.now);
  ASSERT_EQ(board.count, 3u);
  EXPECT_EQ(board.offenders[0].qpn, Desk::qpn(2));
  EXPECT_EQ(board.offenders[1].qpn, Desk::qpn(1));
  EXPECT_EQ(board.offenders[2].qpn, Desk::qpn(0));
  EXPECT_EQ(board.offenders[0].held, 2u);
  EXPECT_EQ(board.offenders[0].limit, 4u);
  EXPECT_FLOAT_EQ(board.offenders[0].score, 3);
}

/// Accounts are as many as buffers; one that holds nothing makes room.
TEST(Provisioner, ManyMoreQueuePairsThanBuffers) {
  Desk desk(limited(1), 4, 64000);
  for (std::size_t qp = 0; qp < 64000; ++qp) {
    ASSERT_EQ(desk.message(qp, qp), Decision::kGranted) << qp;
    if (qp >= 3) desk.provisioner.posted(qp - 3);
  }
  EXPECT_EQ(desk.provisioner.accounts_in_use(), 4u);
}

/// Members that had an account in the previous provisioner have none in the next one, and do not
/// take the account of another member.
TEST(Provisioner, SuccessorBeginsAnew) {
  Desk desk(limited(2));
  EXPECT_EQ(desk.messages(0, 5), 2u);
  EXPECT_EQ(desk.message(1), Decision::kGranted);
  Provisioner next(8, limited(3), desk.counters);
  desk.provisioner.retire(&next);
  EXPECT_EQ(desk.counters.held.value(), 0u);
  const auto message = [&](std::size_t qp) {
    const Decision decision = next.decide(desk.members[qp], Desk::qpn(qp), desk.now);
    if (!is_granted(decision)) return false;
    next.drawn(desk.members[qp], desk.now);
    next.completed(desk.members[qp], 0);
    return true;
  };
  EXPECT_EQ(next.held_by(desk.members[0]), 0u);
  EXPECT_TRUE(message(2)) << "it gets the account with the number of another one's old";
  next.completed(desk.members[0], 0);  // drawn from the one before
  EXPECT_EQ(next.held_by(desk.members[0]), 0u);
  EXPECT_EQ(next.held_by(desk.members[1]), 0u);
  EXPECT_EQ(next.held_by(desk.members[2]), 1u);
  unsigned granted = 0;
  for (int i = 0; i < 5; ++i) granted += message(0) ? 1 : 0;
  EXPECT_EQ(granted, 3u);
  EXPECT_EQ(desk.counters.held.value(), 4u);
}

}  // namespace
}  // namespace softhca::receive
