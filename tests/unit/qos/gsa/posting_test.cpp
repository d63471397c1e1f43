// SPDX-License-Identifier: Apache-2.0

// How many buffers are posted: E1 to E3.
#include <cerrno>

#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

constexpr std::uint64_t kPerformance = 4;
constexpr std::uint64_t kCommunication = 7;

TEST(Posting, EveryClientAddsSixteenBuffersAndTakesThemAway) {
  PoolFixture fixture(unlimited(64));
  EXPECT_EQ(fixture.posted(), 0u);
  const ClientId performance = fixture.join(kPerformance);
  EXPECT_EQ(fixture.posted(), 16u);
  fixture.join(kCommunication);
  EXPECT_EQ(fixture.posted(), 32u);
  fixture.pool.deregister_client(performance);
  EXPECT_EQ(fixture.posted(), 16u);
  EXPECT_EQ(fixture.pool.counters().clients.value(), 1u);
  EXPECT_EQ(fixture.send(kPerformance, 1), Discard::kNoClient);
}

TEST(Posting, AClientNamesItsNumberAndChangesItAnyTime) {
  PoolFixture fixture(unlimited(64));
  const ClientId id = fixture.join(kCommunication, 4);
  EXPECT_EQ(fixture.posted(), 4u);
  EXPECT_TRUE(fixture.pool.set_buffers(id, 40));
  EXPECT_EQ(fixture.posted(), 40u);
  EXPECT_TRUE(fixture.pool.set_buffers(id, 8));
  EXPECT_EQ(fixture.posted(), 8u);
  EXPECT_TRUE(fixture.pool.set_buffers(id, std::nullopt));
  EXPECT_EQ(fixture.posted(), 16u);
  EXPECT_FALSE(fixture.pool.take_share_change()) << "it knows what it asked for";
}

TEST(Posting, NobodyIsPromisedWhatIsNotThere) {
  PoolFixture fixture(unlimited(40));
  const ClientId first = fixture.join(1, 30);
  const Expected<ClientId> second = fixture.pool.register_client(ClientKey(2), "second", 11);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ENOMEM);
  EXPECT_EQ(second.error().message, "11 buffers requested, 10 of 40 are free");
  EXPECT_EQ(fixture.pool.set_buffers(first, 41).error().code, ENOMEM);
  EXPECT_EQ(fixture.pool.set_buffers(first, 0).error().code, EINVAL);
  EXPECT_EQ(fixture.share(1), 30u);
  EXPECT_EQ(fixture.pool.register_client(ClientKey(1), "again").error().code, EEXIST);
  fixture.pool.deregister_client(first);
  EXPECT_EQ(fixture.pool.set_buffers(first, 1).error().code, ENOENT);
  fixture.pool.deregister_client(first);
}

TEST(Posting, PlacesForClientsAreLimited) {
  PoolFixture fixture(unlimited(64), {.buffers = 64, .clients = 2, .sources = 4});
  fixture.join(1, 1);
  fixture.join(2, 1);
  EXPECT_EQ(fixture.pool.register_client(ClientKey(3), "third", 1).error().code, ENOSPC);
}

TEST(Posting, BelowTheLowThresholdMoreArePostedAndRemovedAboveTheHighOne) {
  Parameters parameters = unlimited(200);
  parameters.low_threshold = 6;
  parameters.high_threshold = 20;
  PoolFixture fixture(parameters);
  fixture.join(kCommunication);
  EXPECT_EQ(fixture.posted(), 16u);
  EXPECT_EQ(fixture.flood(kCommunication, 1, 10), 10u);
  EXPECT_EQ(fixture.posted(), 6u) << "not below the threshold yet";
  fixture.send(kCommunication, 1);
  EXPECT_EQ(fixture.posted(), 13u) << "the middle between the two";
  EXPECT_EQ(fixture.pool.counters().posted_more.value(), 8u);
  fixture.give_back(kCommunication, 7);
  EXPECT_EQ(fixture.posted(), 20u);
  fixture.give_back(kCommunication);
  EXPECT_EQ(fixture.posted(), 20u) << "what was added above the high threshold is gone";
  EXPECT_EQ(fixture.pool.counters().removed.value(), 4u);
}

TEST(Posting, WhatClientsAskedForIsNeverRemoved) {
  Parameters parameters = unlimited(200);
  parameters.low_threshold = 1;
  parameters.high_threshold = 2;
  PoolFixture fixture(parameters);
  fixture.join(1);
  fixture.join(2);
  EXPECT_EQ(fixture.posted(), 32u);
  EXPECT_EQ(fixture.flood(1, 1, 40), 40u);
  fixture.give_back(1);
  EXPECT_EQ(fixture.posted(), 32u);
}

TEST(Posting, ThresholdsGrowWithTheNumberOfClients) {
  PoolFixture fixture(unlimited(200));
  for (std::uint64_t clients = 1; clients <= 4; ++clients) {
    fixture.join(clients);
    EXPECT_EQ(fixture.pool.low_threshold(), 4 * clients);
    EXPECT_EQ(fixture.pool.high_threshold(), 16 * clients);
  }
}

TEST(Posting, WithoutALowThresholdABufferIsPostedWhenADatagramNeedsIt) {
  Parameters parameters = unlimited(64);
  parameters.low_threshold = 0;
  parameters.high_threshold = 0;
  PoolFixture fixture(parameters);
  fixture.join(1, 1);
  fixture.join(2, 1);
  EXPECT_EQ(fixture.flood(1, 1, 8), 8u);
  EXPECT_EQ(fixture.send(2, 1), Discard::kNone);
  fixture.give_back(1);
  fixture.give_back(2);
  EXPECT_EQ(fixture.posted(), 2u);
}

}  // namespace
}  // namespace softhca::management::gsa
