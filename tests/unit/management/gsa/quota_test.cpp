// Fairness between clients when memory is out: E5.
#include "tests/unit/management/gsa/desk.hpp"

namespace softhca::management::gsa {
namespace {

/// Datagrams of many hosts, so that no host's part is in the way.
std::uint32_t flood_of_many(Desk& desk, std::uint64_t key, std::uint32_t n) {
  std::uint32_t given = 0;
  for (std::uint32_t i = 0; i < n; ++i) given += desk.flood(key, 1000 + i % 16, 1);
  return given;
}

Parameters tight() {
  Parameters parameters = unlimited(32);
  parameters.sources.new_part = 1;
  return parameters;
}

TEST(Quota, OutOfMemoryAClientReceivesAsManyAsWerePostedForIt) {
  Desk desk(tight());
  desk.join(1);
  desk.join(2);
  EXPECT_EQ(flood_of_many(desk, 1, 1000), 16u);
  EXPECT_EQ(desk.discarded(1, Discard::kOverQuota), 984u);
  EXPECT_EQ(flood_of_many(desk, 2, 16), 16u) << "the flood cost the other none";
  EXPECT_EQ(desk.discarded(2, Discard::kOverQuota), 0u);
  desk.give_back(1, 3);
  EXPECT_EQ(flood_of_many(desk, 2, 3), 0u) << "what is given back is the first one's";
  EXPECT_EQ(flood_of_many(desk, 1, 4), 3u);
}

TEST(Quota, SpareBuffersAreBorrowedAndSomeAreLeft) {
  Parameters parameters = unlimited(96);
  parameters.sources.part = parameters.sources.new_part = 1;
  Desk desk(parameters);
  desk.join(1);
  desk.join(2);
  EXPECT_EQ(flood_of_many(desk, 1, 1000), 16u + 32u) << "half of the 64";
  EXPECT_EQ(flood_of_many(desk, 2, 1000), 16u) << "new sources have borrowed their part";
  desk.establish(2, 1);
  EXPECT_EQ(desk.flood(2, 1, 1000), 16u) << "half of what was left";
}

TEST(Quota, OneThatJoinsIsGrantedBuffersAsTheyAreGivenBackAndNobodyElseLoses) {
  Parameters parameters = unlimited(64);
  parameters.sources.part = parameters.sources.new_part = 1;
  Desk desk(parameters);
  desk.join(1, 8);
  desk.join(2, 8);
  desk.establish(1, 1);
  EXPECT_EQ(desk.flood(1, 1, 100), 8u + 24u);
  desk.join(3, 40);
  EXPECT_EQ(desk.share(3), 40u);
  EXPECT_EQ(flood_of_many(desk, 3, 100), 24u);
  EXPECT_EQ(desk.discarded(3, Discard::kExhausted), 76u);
  EXPECT_EQ(flood_of_many(desk, 2, 8), 8u) << "promised before, and kept";
  EXPECT_EQ(desk.in_use(), 64u);
  desk.give_back(1);
  EXPECT_EQ(flood_of_many(desk, 3, 100), 16u + 4u) << "and half of the 8 that are nobody's";
  EXPECT_EQ(flood_of_many(desk, 1, 8), 8u);
  EXPECT_EQ(desk.in_use(), 60u);
}

TEST(Quota, AShareThatGrowsUpToWhatIsHeldNeedsNoOtherBuffers) {
  Desk desk(tight());
  const ClientId id = desk.join(1, 20);
  EXPECT_EQ(flood_of_many(desk, 1, 100), 20u + 6u);
  ASSERT_TRUE(desk.pool.set_buffers(id, 2));
  desk.join(2, 12);
  ASSERT_TRUE(desk.pool.set_buffers(id, 20));
  desk.give_back(1, 1);
  EXPECT_EQ(desk.send(1, 1000), Discard::kNone) << "all 20 are granted, though none is spare";
}

TEST(Quota, WhatAClientHoldsWhenItLeavesIsInUseUntilItIsGivenBack) {
  Desk desk(tight());
  const ClientId gone = desk.join(1);
  desk.join(2);
  EXPECT_EQ(flood_of_many(desk, 1, 16), 16u);
  const std::uint32_t buffer = desk.held[1].front();
  EXPECT_EQ(desk.pool.holder_of(buffer), gone);
  desk.pool.deregister_client(gone);
  EXPECT_FALSE(desk.pool.holder_of(buffer));
  EXPECT_EQ(desk.in_use(), 16u);
  desk.join(3, 16);
  EXPECT_EQ(desk.send(3, 1), Discard::kExhausted);
  EXPECT_EQ(flood_of_many(desk, 2, 16), 16u);
  desk.give_back(1);
  EXPECT_EQ(flood_of_many(desk, 3, 16), 16u);
}

TEST(Quota, ABufferIsGivenBackOnce) {
  Desk desk(tight());
  desk.join(1);
  desk.send(1, 1);
  const std::uint32_t buffer = desk.held[1].front();
  EXPECT_TRUE(desk.pool.release(buffer));
  EXPECT_FALSE(desk.pool.release(buffer));
  EXPECT_FALSE(desk.pool.release(100'000));
  EXPECT_EQ(desk.in_use(), 0u);
}

TEST(Quota, WhatNobodyRegisteredForIsCounted) {
  Desk desk(tight());
  EXPECT_EQ(desk.send(9, 1), Discard::kNoClient);
  EXPECT_EQ(desk.pool.counters().discarded[static_cast<std::size_t>(Discard::kNoClient)].value(),
            1u);
}

}  // namespace
}  // namespace softhca::management::gsa
