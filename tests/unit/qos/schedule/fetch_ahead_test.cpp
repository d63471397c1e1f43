// SPDX-License-Identifier: Apache-2.0

// A queue pair that waits for room in a kick list gets a turn when there is room, first come first
// served. As many are woken as there is room for.
#include "daemon/qos/schedule/fetch_ahead.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softhca::schedule {
namespace {

constexpr TvlId kFull(0), kSecond(1);
constexpr std::uint32_t kQueuePairs = 64;

class FetchAheadTest : public testing::Test {
 protected:
  void fetch(TvlId tvl, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) ahead.came(tvl);
  }
  void wait(QpSlot slot, TvlId tvl) { ahead.wait(slot, tvl, QosClassId(0)); }
  void start(TvlId tvl, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) ahead.left(tvl);
  }
  /// Wakes the queue pairs for which there is room, and returns their slots. Each may fetch `each`
  /// commands.
  std::vector<std::uint32_t> wake(std::uint32_t each = 16) {
    std::vector<std::uint32_t> slots;
    ahead.wake([&](QpSlot slot) {
      slots.push_back(slot.value);
      return each;
    });
    return slots;
  }
  using Slots = std::vector<std::uint32_t>;

  FetchAhead ahead{2, kQueuePairs, 2};
};

TEST_F(FetchAheadTest, HasRoomForSome) {
  fetch(kFull, FetchAhead::kMost - 1);
  EXPECT_TRUE(ahead.has_room(kFull));
  fetch(kFull, 1);
  EXPECT_FALSE(ahead.has_room(kFull));
  EXPECT_TRUE(ahead.has_room(kSecond));
  start(kFull, 1);
  EXPECT_TRUE(ahead.has_room(kFull));
}

TEST_F(FetchAheadTest, OneMayWaitBeforeTheOthers) {
  fetch(kFull, 32);
  wait(QpSlot(5), kFull);
  ahead.wait(QpSlot(6), kFull, QosClassId(0), true);
  start(kFull, 16);
  EXPECT_EQ(wake(), Slots{6});
}

TEST_F(FetchAheadTest, EndsWaitsWhenHalfHaveStarted) {
  fetch(kFull, 32);
  wait(QpSlot(5), kFull);
  start(kFull, 15);
  EXPECT_FALSE(ahead.has_work());
  EXPECT_EQ(wake(), Slots{});
  start(kFull, 1);
  EXPECT_TRUE(ahead.has_work());
  EXPECT_EQ(wake(), Slots{5});
  EXPECT_FALSE(ahead.waits(QpSlot(5)));
  EXPECT_FALSE(ahead.has_work());
  EXPECT_EQ(wake(), Slots{});
}

TEST_F(FetchAheadTest, EndsAsManyWaitsAsThereIsRoomForTheOldestFirst) {
  fetch(kFull, 32);
  for (const std::uint32_t slot : {3, 1, 4, 0}) wait(QpSlot(slot), kFull);
  wait(QpSlot(3), kFull);
  wait(QpSlot(3), kSecond);
  start(kFull, 16);
  EXPECT_EQ(wake(16), Slots{3});
  start(kFull, 1);
  EXPECT_EQ(wake(9), (Slots{1, 4}));
  EXPECT_EQ(wake(0), Slots{0}) << "one that fetches nothing counts as one that does";
}

TEST_F(FetchAheadTest, EachListHasItsOwn) {
  fetch(kFull, 32);
  fetch(kSecond, 8);
  for (const std::uint32_t slot : {1, 2}) wait(QpSlot(slot), kFull);
  for (const std::uint32_t slot : {7, 8}) wait(QpSlot(slot), kSecond);
  start(kSecond, 4);
  EXPECT_EQ(wake(2), (Slots{7, 8}));
  start(kFull, 32);
  EXPECT_EQ(wake(16), (Slots{1, 2}));
}

TEST_F(FetchAheadTest, ForgetsThoseThatAreGone) {
  fetch(kFull, 2);
  for (const std::uint32_t slot : {1, 2}) wait(QpSlot(slot), kFull);
  ahead.forget(QpSlot(1));
  ahead.forget(QpSlot(1));
  ahead.forget(QpSlot(9));
  start(kFull, 2);
  EXPECT_EQ(wake(), Slots{2});
  wait(QpSlot(1), kFull);
  ahead.forget(QpSlot(1));
  EXPECT_FALSE(ahead.has_work());
}

TEST_F(FetchAheadTest, KnowsTheClassesOfThoseThatWait) {
  const QosClassId first(0), second(1);
  fetch(kFull, 2);
  ahead.wait(QpSlot(1), kFull, second);
  ahead.wait(QpSlot(2), kFull, second);
  EXPECT_FALSE(ahead.any_waits(first));
  EXPECT_TRUE(ahead.any_waits(second));
  ahead.forget(QpSlot(1));
  EXPECT_TRUE(ahead.any_waits(second));
  start(kFull, 2);
  wake();
  EXPECT_FALSE(ahead.any_waits(second));
}

TEST_F(FetchAheadTest, WhoFindsAListFullOfOtherThingsTriesAgain) {
  for (int i = 0; i < 3; ++i) {
    wait(QpSlot(1), kFull);
    EXPECT_TRUE(ahead.has_work());
    EXPECT_EQ(wake(), Slots{1});
  }
}

/// Each waiting queue pair gets its turn within a bounded number of steps, whatever the woken ones
/// do with their turns and whichever ones are closed.
TEST_F(FetchAheadTest, NobodyWaitsForEver) {
  std::mt19937 random(1);
  std::uint32_t inside[2] = {};
  std::vector<std::uint32_t> waited(kQueuePairs);
  for (int step = 0; step < 200'000; ++step) {
    const TvlId tvl(random() % 2);
    std::uint32_t& fetched = inside[tvl.value];
    const std::uint32_t count = random() % 8;
    for (std::uint32_t i = 0; i < count && ahead.has_room(tvl); ++i, ++fetched) ahead.came(tvl);
    const QpSlot slot(random() % kQueuePairs);
    if (!ahead.has_room(tvl) && !ahead.waits(slot)) {
      wait(slot, tvl);
      waited[slot.value] = 0;
    }
    if (random() % 16 == 0) ahead.forget(QpSlot(random() % kQueuePairs));
    if (random() % 4 == 0) {
      const TvlId started(random() % 2);
      for (; inside[started.value] != 0; --inside[started.value]) ahead.left(started);
      wake(random() % 17);
      if (started != tvl) continue;
      for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
        if (!ahead.waits(QpSlot(i))) continue;
        ASSERT_LE(++waited[i], 8 * kQueuePairs) << i;
      }
    }
  }
}

}  // namespace
}  // namespace softhca::schedule
