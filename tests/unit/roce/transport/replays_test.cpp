// SPDX-License-Identifier: Apache-2.0

// Reads and atomics remembered, in places that the next engine takes over.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/roce/transport/own_replays.hpp"

namespace softhca::transport {
namespace {

std::vector<std::uint64_t> oldest_first(Replays& replays) {
  std::vector<std::uint64_t> all;
  for (std::uint32_t age = 0; age < replays.size(); ++age) all.push_back(replays[age].addr);
  return all;
}

TEST(ReplaysTest, StandByAge) {
  OwnReplays store;
  Replays replays;
  replays.open(store.places(), 3);
  EXPECT_TRUE(replays.empty());
  for (std::uint64_t i = 1; i <= 3; ++i) replays.push().addr = i;
  EXPECT_TRUE(replays.full());
  EXPECT_EQ(oldest_first(replays), (std::vector<std::uint64_t>{1, 2, 3}));
  replays.pop();
  replays.push().addr = 4;
  EXPECT_EQ(oldest_first(replays), (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(replays.youngest().addr, 4u);
  replays.clear();
  EXPECT_TRUE(replays.empty());
  EXPECT_EQ(oldest_first(replays), std::vector<std::uint64_t>{});
}

TEST(ReplaysTest, AreNewWhateverWasInTheirPlace) {
  OwnReplays store;
  Replays replays;
  replays.open(store.places(), 1);
  Replay& before = replays.push();
  before.atomic = before.due = before.replay = true;
  before.packets = 9;
  replays.pop();
  const Replay& after = replays.push();
  EXPECT_FALSE(after.atomic || after.due || after.replay);
  EXPECT_EQ(after.packets, 0u);
}

TEST(ReplaysTest, TakeNoPlaceBeforeTheyNeedIt) {
  OwnReplays store;
  Replays replays;
  replays.open(store.places(), 128);
  EXPECT_EQ(store.used, 0u);
  for (int i = 0; i < 10; ++i) {
    replays.push();
    if (replays.size() > 2) replays.pop();
  }
  EXPECT_EQ(store.used, 10u);
}

TEST(ReplaysTest, StartAnewWhenTheLimitChanges) {
  OwnReplays store;
  Replays replays;
  replays.open(store.places(), 4);
  replays.push();
  replays.open(store.places(), 2);
  EXPECT_TRUE(replays.empty());
  EXPECT_TRUE(replays.is_open(2));
  replays.push();
  replays.push();
  EXPECT_TRUE(replays.full());
  replays.open(store.places(), 0);
  EXPECT_TRUE(replays.full());
  replays.close();
  EXPECT_FALSE(replays.is_open(0));
}

TEST(ReplaysTest, NotMoreThanThereArePlaces) {
  OwnReplays store;
  store.all.resize(2);
  Replays replays;
  replays.open(store.places(), 255);
  EXPECT_EQ(replays.limit(), 2u);
}

/// What one engine has left and the next one goes on with.
class ReplaysResume : public testing::Test {
 protected:
  static constexpr std::uint32_t kLimit = 3;

  ReplaysResume() { before.open(store.places(), kLimit); }

  void remember(std::uint32_t psn) {
    Replay& replay = *before.remember();
    replay.first = Psn(psn);
    replay.addr = psn;
    replay.packets = 1;
  }
  std::vector<std::uint64_t> resume(std::uint32_t expected) {
    after.open(other.places(), kLimit);
    after.resume(store.places(), Psn(expected));
    return oldest_first(after);
  }

  OwnReplays store, other;
  Replays before, after;
};

TEST_F(ReplaysResume, WhateverPlaceTheRotationHasReached_InTheirOrder) {
  for (std::uint32_t last = 0; last < 8; ++last) {
    store.used = 0;
    before.open(store.places(), kLimit);
    std::vector<std::uint64_t> expected;
    for (std::uint32_t psn = 0; psn < last; ++psn) {
      remember(Psn(0xfffffe + psn).value());
      if (psn + kLimit >= last) expected.push_back(Psn(0xfffffe + psn).value());
    }
    EXPECT_EQ(resume(Psn(0xfffffe + last).value()), expected) << last;
    EXPECT_FALSE(after.any_due());
  }
}

TEST_F(ReplaysResume, OwedResponses_AreOwedStill) {
  remember(10);
  remember(11);
  before.owe(before.youngest(), 0, 1);
  resume(12);
  ASSERT_TRUE(after.any_due());
  EXPECT_EQ(after.oldest_due().first, Psn(11));
  after.settle(after.oldest_due());
  EXPECT_FALSE(after.any_due());
}

TEST_F(ReplaysResume, NewOnesTakeTheNextPlaces) {
  remember(10);
  remember(11);
  resume(12);
  after.remember()->addr = 12;
  after.remember()->addr = 13;
  EXPECT_EQ(oldest_first(after), (std::vector<std::uint64_t>{11, 12, 13}));
}

TEST_F(ReplaysResume, TooOldOrNotFinished_Dropped) {
  remember(10);
  remember(0x900000);
  before.remember();
  EXPECT_EQ(resume(0x900001), std::vector<std::uint64_t>{0x900000});
}

TEST_F(ReplaysResume, OutOfOrder_DroppedAsAWhole) {
  for (std::uint32_t psn : {10, 12, 11}) remember(psn);
  EXPECT_TRUE(resume(13).empty());
  after.remember()->addr = 5;
  EXPECT_EQ(oldest_first(after), std::vector<std::uint64_t>{5});
}

class ResponsesDue : public testing::Test {
 protected:
  ResponsesDue() { replays.open(store.places(), 3); }
  ~ResponsesDue() override { replays.close(); }

  /// A read of so many packets from `psn` on, not answered yet.
  Replay& remember(std::uint32_t psn, std::uint32_t packets) {
    Replay& replay = *replays.remember();
    replay.first = Psn(psn);
    replay.packets = packets;
    replays.owe(replay, 0, packets);
    return replay;
  }

  OwnReplays store;
  Replays replays;
};

TEST_F(ResponsesDue, AreGivenInTheOrderOfTheirRequests) {
  EXPECT_FALSE(replays.any_due());
  Replay& first = remember(10, 2);
  Replay& second = remember(12, 1);
  EXPECT_EQ(&replays.oldest_due(), &first);
  replays.settle(first);
  EXPECT_EQ(&replays.oldest_due(), &second);
  replays.settle(second);
  EXPECT_FALSE(replays.any_due());
  // Asked for again, the older comes first again.
  second.replay = first.replay = true;
  replays.owe(second, 0, 1);
  replays.owe(first, 1, 2);
  EXPECT_EQ(&replays.oldest_due(), &first);
  EXPECT_EQ(first.next, 1u);
}

TEST_F(ResponsesDue, MakeRoomForNoMoreThanWasAgreed) {
  remember(10, 1);
  Replay& second = remember(11, 1);
  remember(12, 1);
  EXPECT_EQ(replays.remember(), nullptr);
  // One answered before, and asked for again, may be forgotten.
  Replay& oldest = replays.oldest_due();
  oldest.replay = true;
  EXPECT_NE(replays.remember(), nullptr);
  EXPECT_EQ(&replays.oldest_due(), &second);
}

TEST_F(ResponsesDue, AreNotDueAnyMoreWhenAllAreSettled) {
  Replay& only = remember(10, 1);
  replays.settle_all();
  EXPECT_FALSE(replays.any_due());
  EXPECT_FALSE(only.due);
  EXPECT_EQ(replays.find(Psn(10)), &only);
  remember(11, 1);
  replays.clear();
  EXPECT_FALSE(replays.any_due());
}

TEST_F(ResponsesDue, AreFoundByEachOfTheirNumbersTheYoungestFirst) {
  Replay& old = remember(10, 3);
  Replay& young = remember(12, 2);
  EXPECT_EQ(replays.find(Psn(9)), nullptr);
  EXPECT_EQ(replays.find(Psn(11)), &old);
  EXPECT_EQ(replays.find(Psn(12)), &young);
  EXPECT_EQ(replays.find(Psn(13)), &young);
  EXPECT_EQ(replays.find(Psn(14)), nullptr);
}

TEST(ReplaysTest, WithoutALimitNothingIsRemembered) {
  OwnReplays store;
  Replays replays;
  replays.open(store.places(), 0);
  EXPECT_EQ(replays.remember(), nullptr);
}

}  // namespace
}  // namespace softhca::transport
