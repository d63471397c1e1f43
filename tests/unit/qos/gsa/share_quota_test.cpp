// SPDX-License-Identifier: Apache-2.0

// Fairness between clients when memory is out: E5.
#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

/// Datagrams of many hosts, so that no host's part is in the way.
std::uint32_t flood_of_many(PoolFixture& fixture, std::uint64_t key, std::uint32_t n) {
  std::uint32_t given = 0;
  for (std::uint32_t i = 0; i < n; ++i) given += fixture.flood(key, 1000 + i % 16, 1);
  return given;
}

Parameters tight() {
  Parameters parameters = unlimited(32);
  parameters.sources.new_part = 1;
  return parameters;
}

TEST(Quota, OutOfMemoryAClientReceivesAsManyAsWerePostedForIt) {
  PoolFixture fixture(tight());
  fixture.join(1);
  fixture.join(2);
  EXPECT_EQ(flood_of_many(fixture, 1, 1000), 16u);
  EXPECT_EQ(fixture.discarded(1, Discard::kOverQuota), 984u);
  EXPECT_EQ(flood_of_many(fixture, 2, 16), 16u) << "the flood cost the other none";
  EXPECT_EQ(fixture.discarded(2, Discard::kOverQuota), 0u);
  fixture.give_back(1, 3);
  EXPECT_EQ(flood_of_many(fixture, 2, 3), 0u) << "returned buffers belong to the first client";
  EXPECT_EQ(flood_of_many(fixture, 1, 4), 3u);
}

TEST(Quota, SpareBuffersAreBorrowedAndSomeAreLeft) {
  Parameters parameters = unlimited(96);
  parameters.sources.part = parameters.sources.new_part = 1;
  PoolFixture fixture(parameters);
  fixture.join(1);
  fixture.join(2);
  EXPECT_EQ(flood_of_many(fixture, 1, 1000), 16u + 32u) << "half of the 64";
  EXPECT_EQ(flood_of_many(fixture, 2, 1000), 16u) << "new sources have borrowed their part";
  fixture.establish(2, 1);
  EXPECT_EQ(fixture.flood(2, 1, 1000), 16u) << "half of what was left";
}

TEST(Quota, OneThatJoinsIsGrantedBuffersAsTheyAreGivenBackAndNobodyElseLoses) {
  Parameters parameters = unlimited(64);
  parameters.sources.part = parameters.sources.new_part = 1;
  PoolFixture fixture(parameters);
  fixture.join(1, 8);
  fixture.join(2, 8);
  fixture.establish(1, 1);
  EXPECT_EQ(fixture.flood(1, 1, 100), 8u + 24u);
  fixture.join(3, 40);
  EXPECT_EQ(fixture.share(3), 40u);
  EXPECT_EQ(flood_of_many(fixture, 3, 100), 24u);
  EXPECT_EQ(fixture.discarded(3, Discard::kExhausted), 76u);
  EXPECT_EQ(flood_of_many(fixture, 2, 8), 8u) << "promised before, and kept";
  EXPECT_EQ(fixture.in_use(), 64u);
  fixture.give_back(1);
  EXPECT_EQ(flood_of_many(fixture, 3, 100), 16u + 4u) << "and half of the 8 that no client owns";
  EXPECT_EQ(flood_of_many(fixture, 1, 8), 8u);
  EXPECT_EQ(fixture.in_use(), 60u);
}

TEST(Quota, AShareThatGrowsUpToWhatIsHeldNeedsNoOtherBuffers) {
  PoolFixture fixture(tight());
  const ClientId id = fixture.join(1, 20);
  EXPECT_EQ(flood_of_many(fixture, 1, 100), 20u + 6u);
  ASSERT_TRUE(fixture.pool.set_buffers(id, 2));
  fixture.join(2, 12);
  ASSERT_TRUE(fixture.pool.set_buffers(id, 20));
  fixture.give_back(1, 1);
  EXPECT_EQ(fixture.send(1, 1000), Discard::kNone) << "all 20 are granted, though none is spare";
}

TEST(Quota, WhatAClientHoldsWhenItLeavesIsInUseUntilItIsGivenBack) {
  PoolFixture fixture(tight());
  const ClientId gone = fixture.join(1);
  fixture.join(2);
  EXPECT_EQ(flood_of_many(fixture, 1, 16), 16u);
  fixture.pool.deregister_client(gone);
  EXPECT_EQ(fixture.in_use(), 16u);
  fixture.join(3, 16);
  EXPECT_EQ(fixture.send(3, 1), Discard::kExhausted);
  EXPECT_EQ(flood_of_many(fixture, 2, 16), 16u);
  fixture.give_back(1);
  EXPECT_EQ(flood_of_many(fixture, 3, 16), 16u);
}

TEST(Quota, ABufferIsGivenBackOnce) {
  PoolFixture fixture(tight());
  fixture.join(1);
  fixture.send(1, 1);
  const std::uint32_t buffer = fixture.held[1].front();
  EXPECT_TRUE(fixture.pool.release(buffer));
  EXPECT_FALSE(fixture.pool.release(buffer));
  EXPECT_FALSE(fixture.pool.release(100'000));
  EXPECT_EQ(fixture.in_use(), 0u);
}

TEST(Quota, WhatNobodyRegisteredForIsCounted) {
  PoolFixture fixture(tight());
  EXPECT_EQ(fixture.send(9, 1), Discard::kNoClient);
  EXPECT_EQ(fixture.pool.counters().discarded[static_cast<std::size_t>(Discard::kNoClient)].value(),
            1u);
}

}  // namespace
}  // namespace softhca::management::gsa
