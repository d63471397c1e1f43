// Reads and atomics remembered: places are reserved at once, and taken when they are used.
#include <gtest/gtest.h>

#include <vector>

#include "daemon/transport/replays.hpp"

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

}  // namespace
}  // namespace softhca::transport
