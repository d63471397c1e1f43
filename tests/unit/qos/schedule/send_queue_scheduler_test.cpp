// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/send_queue_scheduler.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

constexpr QpSlot kA{0};
constexpr QpSlot kB{1};
constexpr QpSlot kC{2};

class SendQueueSchedulerTest : public testing::Test {
 protected:
  SendQueueSchedulerTest() {
    scheduler.open(kA, QosClassId(0), 16);
    scheduler.open(kB, QosClassId(0), 16);
    scheduler.open(kC, QosClassId(1), 16);
  }

  /// Takes a turn to its end, all commands started at once. Returns the slot, 99 for none.
  std::uint32_t take_turn() {
    const auto turn = scheduler.next();
    if (!turn) return 99;
    scheduler.fetched(turn->slot, turn->count, KickedIn::kDedicatedTvl);
    for (std::uint32_t i = 0; i < turn->count; ++i) scheduler.started(turn->slot);
    return turn->slot.value;
  }

  OverflowMemory memory;
  SendQueueScheduler scheduler{{.max_queue_pairs = 8, .max_classes = 3, .quantum = 4}, memory};
};

TEST_F(SendQueueSchedulerTest, FetchesWhatDoorbellsAnnouncedInOrderAndInQuanta) {
  EXPECT_FALSE(scheduler.next());
  EXPECT_EQ(scheduler.ring(kA, 3), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.ring(kA, 6), RingVerdict::kAccepted);
  auto turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->slot, kA);
  EXPECT_EQ(turn->sequence, 0u);
  EXPECT_EQ(turn->count, 4u);
  scheduler.fetched(kA, 4, KickedIn::kDedicatedTvl);
  turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->sequence, 4u);
  EXPECT_EQ(turn->count, 2u);
  scheduler.fetched(kA, 2, KickedIn::kDedicatedTvl);
  EXPECT_FALSE(scheduler.next());
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_EQ(scheduler.counters(QosClassId(0)).fetched.value(), 6u);
}

TEST_F(SendQueueSchedulerTest, APartlyUsedTurnLeavesTheRestPending) {
  scheduler.ring(kA, 4);
  scheduler.next();
  scheduler.fetched(kA, 1, KickedIn::kDedicatedTvl);
  scheduler.fetched(kA, 0, KickedIn::kDedicatedTvl);
  EXPECT_EQ(scheduler.pending(kA), 3u);
  EXPECT_EQ(scheduler.next()->sequence, 1u);
}

TEST_F(SendQueueSchedulerTest, WhatIsTakenOutAgainIsFetchedAnew) {
  scheduler.ring(kA, 6);
  take_turn();
  take_turn();
  EXPECT_FALSE(scheduler.has_work());
  scheduler.rewind(kA, 2);
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 6));
  EXPECT_EQ(scheduler.ring(kA, 7), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.ring(kA, 19), RingVerdict::kHostile);
  const auto turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->sequence, 2u);
  EXPECT_EQ(turn->count, 4u);
  scheduler.fetched(kA, 4, KickedIn::kDedicatedTvl);
  EXPECT_EQ(scheduler.next()->sequence, 6u);
  scheduler.fetched(kA, 1, KickedIn::kDedicatedTvl);
  for (int i = 0; i < 5; ++i) scheduler.started(kA);
  EXPECT_TRUE(scheduler.vcb_may_start(kA, 7));
}

TEST_F(SendQueueSchedulerTest, VcbCommandsTakenOutAgainComeByDoorbell) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(scheduler.vcb_may_start(kA, i));
    scheduler.vcb_kicked(kA);
  }
  for (int i = 0; i < 3; ++i) scheduler.started(kA);
  scheduler.rewind(kA, 0);
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 3));
  EXPECT_EQ(scheduler.pending(kA), 3u);
  scheduler.block(kA);
  EXPECT_FALSE(scheduler.next());
  scheduler.unblock(kA);
  EXPECT_EQ(take_turn(), kA.value);
  EXPECT_TRUE(scheduler.vcb_may_start(kA, 3));
}

TEST_F(SendQueueSchedulerTest, VcbsAndDoorbellsFollowEachOtherInTheListOfTheOwnTvl) {
  scheduler.ring(kA, 2);
  scheduler.next();
  scheduler.fetched(kA, 2, KickedIn::kOwnTvl);
  EXPECT_EQ(scheduler.kicked_in(kA), KickedIn::kOwnTvl);
  ASSERT_TRUE(scheduler.vcb_may_start(kA, 2));
  scheduler.vcb_kicked(kA);
  for (int i = 0; i < 3; ++i) scheduler.started(kA);
  EXPECT_EQ(scheduler.kicked_in(kA), KickedIn::kNone);
}

TEST_F(SendQueueSchedulerTest, OneThatWaitsForTheOtherListHasATurnWhenItsCommandsHaveStarted) {
  scheduler.ring(kA, 4);
  scheduler.next();
  scheduler.fetched(kA, 2, KickedIn::kOwnTvl);
  scheduler.block(kA);
  scheduler.started(kA);
  EXPECT_FALSE(scheduler.next());
  scheduler.started(kA);
  const auto turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->sequence, 2u);
  scheduler.fetched(kA, 2, KickedIn::kDedicatedTvl);
}

TEST_F(SendQueueSchedulerTest, ADoorbellThatSaysNothingNewIsStale) {
  EXPECT_EQ(scheduler.ring(kA, 0), RingVerdict::kStale);
  EXPECT_FALSE(scheduler.has_work());
  scheduler.ring(kA, 5);
  EXPECT_EQ(scheduler.ring(kA, 5), RingVerdict::kStale);
  EXPECT_EQ(scheduler.ring(kA, 4), RingVerdict::kStale);
  EXPECT_EQ(scheduler.pending(kA), 5u);
  EXPECT_EQ(scheduler.counters(QosClassId(0)).stale.value(), 3u);
}

TEST_F(SendQueueSchedulerTest, ADoorbellBeyondTheSendQueueIsHostile) {
  EXPECT_EQ(scheduler.ring(kA, 17), RingVerdict::kHostile);
  EXPECT_EQ(scheduler.ring(kA, 0x7fffffff), RingVerdict::kHostile);
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_EQ(scheduler.ring(kA, 16), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.ring(kA, 17), RingVerdict::kHostile);
  scheduler.next();
  scheduler.fetched(kA, 1, KickedIn::kDedicatedTvl);
  EXPECT_EQ(scheduler.ring(kA, 17), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.counters(QosClassId(0)).hostile.value(), 3u);
}

TEST_F(SendQueueSchedulerTest, SequenceNumbersWrapAround) {
  const QpSlot d(3);
  scheduler.open(d, QosClassId(0), 16, 0xfffffffe);
  EXPECT_EQ(scheduler.ring(d, 0xfffffffe), RingVerdict::kStale);
  EXPECT_EQ(scheduler.ring(d, 15), RingVerdict::kHostile);
  EXPECT_EQ(scheduler.ring(d, 2), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.next()->sequence, 0xfffffffe);
  scheduler.fetched(d, 4, KickedIn::kDedicatedTvl);
  EXPECT_EQ(scheduler.next_sequence(d), 2u);
  EXPECT_FALSE(scheduler.next());
  scheduler.open(QpSlot(4), QosClassId(0), 16, 0xffffffff);
  EXPECT_TRUE(scheduler.vcb_may_start(QpSlot(4), 0xffffffff));
  scheduler.vcb_kicked(QpSlot(4));
  EXPECT_TRUE(scheduler.vcb_may_start(QpSlot(4), 0));
}

TEST_F(SendQueueSchedulerTest, TurnsGoRoundTenantsThenTheirQueuePairs) {
  for (const QpSlot slot : {kA, kB, kC}) scheduler.ring(slot, 16);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 8; ++i) order.push_back(take_turn());
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 2, 1, 2, 0, 2, 1, 2}));
}

TEST_F(SendQueueSchedulerTest, ATenantWithManyQueuePairsGetsNoMoreThanAnother) {
  for (std::uint32_t i = 3; i < 8; ++i) scheduler.open(QpSlot(i), QosClassId(2), 1000);
  std::map<std::uint32_t, int> turns;
  for (int round = 0; round < 300; ++round) {
    for (std::uint32_t i = 0; i < 8; ++i)
      if (i != kB.value) scheduler.ring(QpSlot(i), scheduler.next_sequence(QpSlot(i)) + 16);
    ++turns[take_turn()];
  }
  EXPECT_EQ(turns[0], 100);
  EXPECT_EQ(turns[2], 100);
  for (std::uint32_t i = 3; i < 8; ++i) EXPECT_EQ(turns[i], 20);
}

TEST_F(SendQueueSchedulerTest, VcbCommandsStartOnlyInSequence) {
  EXPECT_TRUE(scheduler.vcb_may_start(kA, 0));
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 1));
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 0xffffffff));
  scheduler.vcb_kicked(kA);
  EXPECT_TRUE(scheduler.vcb_may_start(kA, 1));
  EXPECT_EQ(scheduler.ring(kA, 1), RingVerdict::kStale);
  EXPECT_FALSE(scheduler.has_work());
}

TEST_F(SendQueueSchedulerTest, WhileDoorbellsArePendingVcbCommandsBecomeDoorbells) {
  scheduler.ring(kA, 2);
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 0));
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 2));
  EXPECT_EQ(scheduler.ring(kA, 3), RingVerdict::kAccepted);
  EXPECT_EQ(scheduler.ring(kA, 1), RingVerdict::kStale);
  EXPECT_EQ(scheduler.next()->count, 3u);
}

TEST_F(SendQueueSchedulerTest, AVcbCommandWaitsForTheStartOfThoseInTheDedicatedList) {
  scheduler.ring(kA, 2);
  scheduler.next();
  scheduler.fetched(kA, 2, KickedIn::kDedicatedTvl);
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 2));
  scheduler.started(kA);
  EXPECT_FALSE(scheduler.vcb_may_start(kA, 2));
  scheduler.started(kA);
  EXPECT_TRUE(scheduler.vcb_may_start(kA, 2));
}

TEST_F(SendQueueSchedulerTest, ADoorbellWaitsForTheStartOfVcbCommands) {
  scheduler.vcb_kicked(kA);
  scheduler.vcb_kicked(kA);
  EXPECT_EQ(scheduler.ring(kA, 4), RingVerdict::kAccepted);
  EXPECT_FALSE(scheduler.next());
  scheduler.started(kA);
  EXPECT_FALSE(scheduler.next());
  scheduler.started(kA);
  const auto turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->sequence, 2u);
  EXPECT_EQ(turn->count, 2u);
}

TEST_F(SendQueueSchedulerTest, ABlockedQueuePairHoldsBackNoOther) {
  for (const QpSlot slot : {kA, kB, kC}) scheduler.ring(slot, 16);
  EXPECT_EQ(scheduler.next()->slot, kA);
  scheduler.block(kA);
  scheduler.block(kA);
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 1u);
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 1u);
  scheduler.unblock(kA);
  scheduler.unblock(kA);
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 1u);
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 0u);
}

TEST_F(SendQueueSchedulerTest, BlockedAfterAPartOfItsTurn) {
  scheduler.ring(kA, 8);
  scheduler.next();
  scheduler.block(kA);
  scheduler.fetched(kA, 2, KickedIn::kDedicatedTvl);
  EXPECT_FALSE(scheduler.next());
  EXPECT_EQ(scheduler.ring(kA, 9), RingVerdict::kAccepted);
  EXPECT_FALSE(scheduler.next());
  scheduler.unblock(kA);
  EXPECT_EQ(scheduler.next()->sequence, 2u);
}

TEST_F(SendQueueSchedulerTest, BlockedAgainAndClosed) {
  scheduler.ring(kA, 8);
  scheduler.ring(kB, 8);
  scheduler.block(kA);
  scheduler.block(kB);
  for (int i = 0; i < 2; ++i)
    for (const QpSlot slot : {kA, kB}) scheduler.unblock(slot);
  scheduler.block(kA);
  EXPECT_EQ(take_turn(), 1u);
  scheduler.close(kB);
  EXPECT_FALSE(scheduler.has_work());
  scheduler.unblock(kA);
  EXPECT_EQ(take_turn(), 0u);
}

TEST_F(SendQueueSchedulerTest, ABlockedTenantHoldsBackNoOtherAndKeepsItsOrder) {
  for (const QpSlot slot : {kA, kB, kC}) scheduler.ring(slot, 16);
  scheduler.block_class(QosClassId(0));
  scheduler.block_class(QosClassId(0));
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 2u);
  scheduler.unblock_class(QosClassId(0));
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 0u);
  EXPECT_EQ(take_turn(), 2u);
  EXPECT_EQ(take_turn(), 1u);
}

TEST_F(SendQueueSchedulerTest, ClosingForgetsDoorbellsInWhateverState) {
  scheduler.ring(kA, 4);
  scheduler.close(kA);
  scheduler.close(kA);
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_FALSE(scheduler.is_open(kA));

  scheduler.ring(kB, 4);
  scheduler.block(kB);
  scheduler.close(kB);
  scheduler.unblock(kB);
  EXPECT_FALSE(scheduler.has_work());

  scheduler.vcb_kicked(kC);
  scheduler.ring(kC, 4);
  scheduler.close(kC);
  scheduler.open(kC, QosClassId(1), 16);
  EXPECT_TRUE(scheduler.vcb_may_start(kC, 0));
  EXPECT_FALSE(scheduler.has_work());
}

}  // namespace
}  // namespace softhca::schedule
