// SPDX-License-Identifier: Apache-2.0

// Reads and atomics remembered: places are reserved at once, and taken when they are used.
#include <gtest/gtest.h>

#include <vector>

#include "daemon/roce/transport/reliable/replays.hpp"

namespace softhca::transport {
namespace {

std::vector<std::uint64_t> oldest_first(Replays& replays) {
  std::vector<std::uint64_t> all;
  for (std::uint32_t i = replays.oldest(); i != kNoIndex; i = replays[i].younger)
    all.push_back(replays[i].addr);
  return all;
}

std::vector<std::uint64_t> youngest_first(Replays& replays) {
  std::vector<std::uint64_t> all;
  for (std::uint32_t i = replays.youngest(); i != kNoIndex; i = replays[i].older)
    all.push_back(replays[i].addr);
  return all;
}

TEST(ReplaysTest, StandByAge) {
  ReplayStore store;
  Replays replays;
  replays.open(store, 3);
  EXPECT_TRUE(replays.empty());
  for (std::uint64_t i = 1; i <= 3; ++i) replays.push().addr = i;
  EXPECT_TRUE(replays.full());
  EXPECT_EQ(oldest_first(replays), (std::vector<std::uint64_t>{1, 2, 3}));
  replays.pop();
  replays.push().addr = 4;
  EXPECT_EQ(oldest_first(replays), (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(youngest_first(replays), (std::vector<std::uint64_t>{4, 3, 2}));
  replays.clear();
  EXPECT_TRUE(replays.empty());
  EXPECT_EQ(oldest_first(replays), std::vector<std::uint64_t>{});
  EXPECT_EQ(youngest_first(replays), std::vector<std::uint64_t>{});
}

TEST(ReplaysTest, AreNewWhateverWasInTheirPlace) {
  ReplayStore store;
  Replays replays;
  replays.open(store, 1);
  Replay& before = replays.push();
  before.atomic = before.due = before.replay = true;
  before.packets = 9;
  replays.pop();
  const Replay& after = replays.push();
  EXPECT_FALSE(after.atomic || after.due || after.replay);
  EXPECT_EQ(after.packets, 0u);
}

TEST(ReplaysTest, TakeNothingBeforeTheyAreUsed) {
  ReplayStore store;
  std::vector<Replays> connections(1000);
  for (Replays& replays : connections) replays.open(store, 128);
  EXPECT_EQ(store.reserved(), 128000u);
  EXPECT_EQ(store.taken(), 0u);
  connections[3].push();
  EXPECT_EQ(store.taken(), 1u);
  for (Replays& replays : connections) replays.close();
  EXPECT_EQ(store.reserved(), 0u);
  EXPECT_EQ(store.taken(), 0u);
}

/// However many each of the others has reserved and used.
TEST(ReplaysTest, AreThereForWhoReservedThem) {
  ReplayStore store;
  std::vector<Replays> connections(200);
  for (Replays& replays : connections) replays.open(store, 128);
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::size_t c = 0; c < connections.size(); ++c)
      for (std::uint64_t i = 0; i < 128; ++i) connections[c].push().addr = c * 1000 + i;
    for (std::size_t c = 0; c < connections.size(); ++c) {
      const auto all = oldest_first(connections[c]);
      ASSERT_EQ(all.size(), 128u);
      for (std::uint64_t i = 0; i < 128; ++i) ASSERT_EQ(all[i], c * 1000 + i);
      connections[c].clear();
    }
  }
  for (Replays& replays : connections) replays.close();
}

TEST(ReplaysTest, AreSharedOutAnewWhenTheLimitChanges) {
  ReplayStore store;
  Replays replays;
  replays.open(store, 4);
  replays.push();
  replays.open(store, 2);
  EXPECT_TRUE(replays.empty());
  EXPECT_TRUE(replays.is_open(2));
  EXPECT_EQ(store.reserved(), 2u);
  EXPECT_EQ(store.taken(), 0u);
  replays.open(store, 0);
  EXPECT_TRUE(replays.full());
  replays.close();
}

class ResponsesDue : public testing::Test {
 protected:
  ResponsesDue() { replays.open(store, 3); }
  ~ResponsesDue() override { replays.close(); }

  /// A read of so many packets from `psn` on, not answered yet.
  Replay& remember(std::uint32_t psn, std::uint32_t packets) {
    Replay& replay = *replays.remember();
    replay.first = Psn(psn);
    replay.packets = packets;
    replays.owe(replay, 0, packets);
    return replay;
  }

  ReplayStore store;
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
  ReplayStore store;
  Replays replays;
  replays.open(store, 0);
  EXPECT_EQ(replays.remember(), nullptr);
}

}  // namespace
}  // namespace softhca::transport
