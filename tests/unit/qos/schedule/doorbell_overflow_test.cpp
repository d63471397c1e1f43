// SPDX-License-Identifier: Apache-2.0

// Pruning and recovery step by step.
#include "daemon/qos/schedule/doorbell_overflow.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

using Kind = Relief::Kind;
constexpr QosClassId kOneClass{0};
constexpr QosClassId kOtherClass{1};
constexpr std::uint32_t kRing = 16;

/// Queue pairs 0 to 9 are of tenant A, from 10 on of B; places for 4.
class DoorbellOverflowTest : public testing::Test {
 protected:
  explicit DoorbellOverflowTest(const DoorbellConfig& config = {.entries = 6, .threshold = 2})
      : scheduler({.max_queue_pairs = 20, .max_classes = 2, .quantum = 4, .doorbells = config},
                  memory) {
    for (std::uint32_t i = 0; i < 20; ++i)
      scheduler.open(QpSlot(i), i < 10 ? kOneClass : kOtherClass, kRing);
  }

  void ring(std::uint32_t slot, std::uint32_t end = 4) {
    EXPECT_EQ(scheduler.ring(QpSlot(slot), end), RingVerdict::kAccepted) << slot;
  }
  std::set<std::uint32_t> overflowed() const {
    std::set<std::uint32_t> out;
    for (std::uint32_t i = 0; i < 20; ++i)
      if (scheduler.overflowed(QpSlot(i))) out.insert(i);
    return out;
  }
  /// Fetches and starts all that is pending of a queue pair.
  void finish(std::uint32_t slot) {
    const std::uint32_t count = scheduler.pending(QpSlot(slot));
    scheduler.fetched(QpSlot(slot), count, KickedIn::kDedicatedTvl);
    for (std::uint32_t i = 0; i < count; ++i) scheduler.started(QpSlot(slot));
  }
  /// Which queue pairs come back, in that order, until none does.
  std::vector<std::uint32_t> recover() {
    std::vector<std::uint32_t> out;
    for (Relief r = scheduler.relieve(); r.kind != Kind::kNone; r = scheduler.relieve()) {
      EXPECT_EQ(r.kind, Kind::kRecovered);
      out.push_back(r.slot.value);
    }
    return out;
  }

  OverflowMemory memory;
  SendQueueScheduler scheduler;
};

using Slots = std::set<std::uint32_t>;
using Order = std::vector<std::uint32_t>;

TEST_F(DoorbellOverflowTest, BelowTheThresholdTheNewestGo) {
  for (std::uint32_t i = 0; i < 4; ++i) ring(i);
  EXPECT_TRUE(overflowed().empty());
  EXPECT_FALSE(scheduler.relieve().kind != Kind::kNone);
  ring(4);
  ring(5, 7);
  EXPECT_EQ(overflowed(), (Slots{4, 5}));
  EXPECT_EQ(memory.ends, (std::map<std::uint32_t, std::uint32_t>{{4, 4}, {5, 7}}));
  EXPECT_EQ(scheduler.pending(QpSlot(5)), 0u);
  EXPECT_EQ(scheduler.counters(kOneClass).pruned.value(), 2u);
  EXPECT_EQ(scheduler.counters(kOneClass).overflow.value(), 2u);
}

TEST_F(DoorbellOverflowTest, TheOldestComeBackAsPlacesBecomeFree) {
  for (std::uint32_t i = 0; i < 7; ++i) ring(i);
  EXPECT_TRUE(recover().empty());
  EXPECT_FALSE(scheduler.relieve().kind != Kind::kNone);
  finish(0);
  finish(3);
  EXPECT_TRUE(scheduler.has_work());
  EXPECT_EQ(recover(), (Order{4, 5}));
  finish(1);
  EXPECT_EQ(recover(), (Order{6}));
  EXPECT_TRUE(overflowed().empty());
  EXPECT_EQ(scheduler.pending(QpSlot(6)), 4u);
  EXPECT_EQ(scheduler.counters(kOneClass).recovered.value(), 3u);
  EXPECT_EQ(scheduler.counters(kOneClass).overflow.value(), 0u);
  EXPECT_EQ(scheduler.counters(kOneClass).overflow_high_water.value(), 3u);
}

/// One place for each queue pair is enough, whatever it rings.
TEST_F(DoorbellOverflowTest, LaterDoorbellsJoinTheEarlierOne) {
  for (std::uint32_t i = 0; i < 5; ++i) ring(i);
  for (std::uint32_t end = 5; end <= kRing; ++end) ring(4, end);
  EXPECT_EQ(scheduler.ring(QpSlot(4), kRing + 1), RingVerdict::kHostile);
  EXPECT_EQ(scheduler.ring(QpSlot(4), 9), RingVerdict::kStale);
  EXPECT_EQ(memory.ends, (std::map<std::uint32_t, std::uint32_t>{{4, kRing}}));
  EXPECT_FALSE(scheduler.vcb_may_start(QpSlot(4), 0));
  finish(0);
  EXPECT_EQ(recover(), (Order{4}));
  EXPECT_EQ(scheduler.pending(QpSlot(4)), kRing);
  const DoorbellCounters& counters = scheduler.counters(kOneClass);
  EXPECT_EQ(counters.joined.value(), kRing - 4);
  EXPECT_EQ(counters.pruned.value(), 1u);
  EXPECT_EQ(counters.recovered.value(), 1u);
}

TEST_F(DoorbellOverflowTest, AFloodOverflowsNobodyElse) {
  for (std::uint32_t i = 0; i < 10; ++i) ring(i);
  ring(10);
  ring(11);
  EXPECT_EQ(scheduler.linked(kOneClass), 2u);
  EXPECT_EQ(scheduler.linked(kOtherClass), 2u);
  for (std::uint32_t i = 0; i < 10; ++i) scheduler.ring(QpSlot(i), kRing);
  EXPECT_EQ(scheduler.counters(kOtherClass).pruned.value(), 0u);
  // Above its share it is B's own affair.
  ring(12);
  EXPECT_EQ(overflowed().count(12), 1u);
  EXPECT_EQ(scheduler.counters(kOtherClass).pruned.value(), 1u);
}

TEST_F(DoorbellOverflowTest, RecoveryIsFairBetweenTenants) {
  for (std::uint32_t i = 0; i < 8; ++i) ring(i);
  for (std::uint32_t i = 10; i < 14; ++i) ring(i);
  ASSERT_EQ(overflowed(), (Slots{2, 3, 4, 5, 6, 7, 12, 13}));
  for (const std::uint32_t i : {0u, 1u, 10u, 11u}) finish(i);
  const Order back = recover();
  ASSERT_EQ(back.size(), 4u);
  EXPECT_EQ(std::count_if(back.begin(), back.end(), [](auto slot) { return slot >= 10; }), 2);
}

/// All places are with a tenant that cannot go on; another has one waiting outside.
TEST_F(DoorbellOverflowTest, ATenantBelowItsShareRecoversAtTheCostOfOneAbove) {
  for (std::uint32_t i = 10; i < 15; ++i) ring(i);
  for (const std::uint32_t i : {10u, 11u, 12u, 13u}) finish(i);
  scheduler.block_class(kOneClass);
  for (std::uint32_t i = 0; i < 4; ++i) ring(i);
  ASSERT_EQ(overflowed(), (Slots{14}));
  ASSERT_EQ(scheduler.linked(kOneClass), 4u);
  EXPECT_TRUE(scheduler.has_work());
  EXPECT_EQ(recover(), (Order{14}));
  EXPECT_EQ(overflowed(), (Slots{3}));
  EXPECT_EQ(scheduler.next()->slot, QpSlot(14));
}

TEST_F(DoorbellOverflowTest, BlockedOnesGoFirstAndComeBackWhenTheyMay) {
  for (std::uint32_t i = 0; i < 4; ++i) ring(i);
  scheduler.block(QpSlot(0));
  ring(4);
  EXPECT_EQ(overflowed(), (Slots{0}));
  finish(1);
  finish(2);
  EXPECT_TRUE(recover().empty());
  scheduler.unblock(QpSlot(0));
  EXPECT_EQ(recover(), (Order{0}));
  scheduler.block(QpSlot(0));
  ring(5);
  ring(6);
  ASSERT_EQ(overflowed(), (Slots{0}));
  finish(3);
  scheduler.unblock(QpSlot(0));
  EXPECT_EQ(recover(), (Order{0}));
}

/// The potential deadlock: all places are with queue pairs that wait for the one outside.
TEST_F(DoorbellOverflowTest, BlockedOnesMakeRoomForThoseThatWaitOutside) {
  for (std::uint32_t i = 0; i < 5; ++i) ring(i);
  ASSERT_EQ(overflowed(), (Slots{4}));
  for (std::uint32_t i = 0; i < 4; ++i) scheduler.block(QpSlot(i));
  EXPECT_TRUE(scheduler.has_work());
  EXPECT_EQ(recover(), (Order{4}));
  EXPECT_EQ(overflowed(), (Slots{3}));
  finish(4);
  EXPECT_TRUE(recover().empty());  // 3 is still blocked
  EXPECT_FALSE(scheduler.has_work());
}

TEST_F(DoorbellOverflowTest, HeldOnesWaitOutsideForTheirVcbCommands) {
  scheduler.vcb_kicked(QpSlot(0));
  ring(0);
  for (std::uint32_t i = 1; i < 5; ++i) ring(i);
  ASSERT_EQ(overflowed(), (Slots{0}));
  finish(1);
  EXPECT_TRUE(recover().empty());
  EXPECT_FALSE(scheduler.vcb_may_start(QpSlot(0), 1));
  scheduler.started(QpSlot(0));
  EXPECT_EQ(recover(), (Order{0}));
  EXPECT_EQ(scheduler.pending(QpSlot(0)), 3u);
}

/// Those inside never run out of work; those outside get their turns nevertheless.
TEST_F(DoorbellOverflowTest, UnderALastingFloodAllTakeTurns) {
  std::map<std::uint32_t, int> turns;
  for (int round = 0; round < 1000; ++round) {
    for (std::uint32_t i = 0; i < 10; ++i)
      scheduler.ring(QpSlot(i), scheduler.next_sequence(QpSlot(i)) + kRing);
    recover();
    const auto turn = scheduler.next();
    ASSERT_TRUE(turn);
    ++turns[turn->slot.value];
    scheduler.fetched(turn->slot, turn->count, KickedIn::kDedicatedTvl);
    for (std::uint32_t i = 0; i < turn->count; ++i) scheduler.started(turn->slot);
  }
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_NEAR(turns[i], 100, 4) << i;
}

TEST_F(DoorbellOverflowTest, ABoundOfItsOwnSendsTheRestOutside) {
  for (std::uint32_t i = 0; i < 3; ++i) ring(i);
  ring(10);
  scheduler.set_bound(kOneClass, 1);
  EXPECT_EQ(scheduler.relieve().kind, Kind::kPruned);
  EXPECT_EQ(scheduler.relieve().kind, Kind::kPruned);
  EXPECT_EQ(scheduler.relieve().kind, Kind::kNone);
  EXPECT_EQ(overflowed(), (Slots{1, 2}));
  ring(3);
  EXPECT_EQ(overflowed(), (Slots{1, 2, 3}));
  scheduler.set_bound(kOneClass, 0);
  EXPECT_EQ(scheduler.relieve().kind, Kind::kPruned);
  EXPECT_EQ(scheduler.relieve().kind, Kind::kNone);
  finish(10);
  EXPECT_FALSE(scheduler.has_work());
  scheduler.set_bound(kOneClass, SendQueueScheduler::kNoBound);
  EXPECT_EQ(recover(), (Order{2, 1, 3, 0}));  // in the order they went
}

TEST_F(DoorbellOverflowTest, ClosingLeavesNothingOutside) {
  for (std::uint32_t i = 0; i < 7; ++i) ring(i);
  scheduler.close(QpSlot(5));
  EXPECT_EQ(scheduler.counters(kOneClass).overflow.value(), 2u);
  EXPECT_EQ(scheduler.counters(kOneClass).dropped.value(), 1u);
  scheduler.open(QpSlot(5), kOtherClass, kRing, 100);
  EXPECT_TRUE(scheduler.vcb_may_start(QpSlot(5), 100));
  for (const std::uint32_t i : {0u, 1u}) finish(i);
  EXPECT_EQ(recover(), (Order{4, 6}));
  // Also a blocked one and a held one.
  scheduler.block(QpSlot(2));
  scheduler.vcb_kicked(QpSlot(0));
  ring(0, 8);
  ring(1, 8);
  ring(7);
  ring(8);
  for (std::uint32_t i = 0; i < 10; ++i) scheduler.close(QpSlot(i));
  EXPECT_EQ(scheduler.counters(kOneClass).overflow.value(), 0u);
  EXPECT_EQ(scheduler.linked(), 0u);
  EXPECT_FALSE(scheduler.has_work());
}

/// Nothing that lies in the tenant's memory is believed unless it can be true.
TEST_F(DoorbellOverflowTest, ScribbledOverflowCostsItsOwnQueuePairAlone) {
  for (const auto scribble :
       {std::optional<std::uint32_t>{}, std::optional<std::uint32_t>{0},
        std::optional<std::uint32_t>{kRing + 1}, std::optional<std::uint32_t>{0xffffffff}}) {
    const auto spoil = [&] {
      memory.ends.erase(4);
      if (scribble) memory.ends[4] = *scribble;
    };
    for (std::uint32_t i = 0; i < 6; ++i) ring(i);
    ASSERT_EQ(overflowed(), (Slots{4, 5}));
    spoil();
    finish(0);
    const Relief relief = scheduler.relieve();
    EXPECT_EQ(relief.kind, Kind::kLost);
    EXPECT_EQ(relief.slot, QpSlot(4));
    EXPECT_FALSE(scheduler.overflowed(QpSlot(4)));
    EXPECT_EQ(recover(), (Order{5}));
    ring(4);
    ASSERT_EQ(overflowed(), (Slots{4}));
    spoil();
    EXPECT_EQ(scheduler.ring(QpSlot(4), 5), RingVerdict::kHostile);
    EXPECT_TRUE(overflowed().empty());
    EXPECT_FALSE(scheduler.relieve().kind != Kind::kNone);
    for (std::uint32_t i = 0; i < 6; ++i) {
      scheduler.close(QpSlot(i));
      scheduler.open(QpSlot(i), kOneClass, kRing);
    }
  }
  EXPECT_EQ(scheduler.counters(kOneClass).lost.value(), 8u);
  EXPECT_EQ(scheduler.counters(kOneClass).overflow.value(), 0u);
}

class MostOverflow : public DoorbellOverflowTest {
 protected:
  MostOverflow()
      : DoorbellOverflowTest({.entries = 6, .threshold = 2, .prune = PrunePolicy::kMostOverflow}) {}
};

TEST_F(MostOverflow, ThosePrunedMostOftenGoAgain) {
  for (std::uint32_t i = 0; i < 5; ++i) ring(i);
  ASSERT_EQ(overflowed(), (Slots{4}));
  finish(0);
  EXPECT_EQ(recover(), (Order{4}));
  ring(5);
  EXPECT_EQ(overflowed(), (Slots{4}));  // although 5 is newer
}

}  // namespace
}  // namespace softhca::schedule
