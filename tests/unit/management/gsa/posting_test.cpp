// How many buffers are posted: E1 to E3.
#include <cerrno>

#include "tests/unit/management/gsa/desk.hpp"

namespace softhca::management::gsa {
namespace {

constexpr std::uint64_t kPerformance = 4;
constexpr std::uint64_t kCommunication = 7;

TEST(Posting, EveryClientAddsSixteenBuffersAndTakesThemAway) {
  Desk desk(unlimited(64));
  EXPECT_EQ(desk.posted(), 0u);
  const ClientId performance = desk.join(kPerformance);
  EXPECT_EQ(desk.posted(), 16u);
  desk.join(kCommunication);
  EXPECT_EQ(desk.posted(), 32u);
  desk.pool.deregister_client(performance);
  EXPECT_EQ(desk.posted(), 16u);
  EXPECT_EQ(desk.pool.counters().clients.value(), 1u);
  EXPECT_EQ(desk.send(kPerformance, 1), Discard::kNoClient);
}

TEST(Posting, AClientNamesItsNumberAndChangesItAnyTime) {
  Desk desk(unlimited(64));
  const ClientId id = desk.join(kCommunication, 4);
  EXPECT_EQ(desk.posted(), 4u);
  EXPECT_TRUE(desk.pool.set_buffers(id, 40));
  EXPECT_EQ(desk.posted(), 40u);
  EXPECT_TRUE(desk.pool.set_buffers(id, 8));
  EXPECT_EQ(desk.posted(), 8u);
  EXPECT_TRUE(desk.pool.set_buffers(id, std::nullopt));
  EXPECT_EQ(desk.posted(), 16u);
  EXPECT_FALSE(desk.pool.take_share_change()) << "it knows what it asked for";
}

TEST(Posting, NobodyIsPromisedWhatIsNotThere) {
  Desk desk(unlimited(40));
  const ClientId first = desk.join(1, 30);
  const Expected<ClientId> second = desk.pool.register_client(ClientKey(2), "second", 11);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ENOMEM);
  EXPECT_EQ(second.error().message, "there is room for 10 of 40 buffers, not for 11");
  EXPECT_EQ(desk.pool.set_buffers(first, 41).error().code, ENOMEM);
  EXPECT_EQ(desk.pool.set_buffers(first, 0).error().code, EINVAL);
  EXPECT_EQ(desk.share(1), 30u);
  EXPECT_EQ(desk.pool.register_client(ClientKey(1), "again").error().code, EEXIST);
  desk.pool.deregister_client(first);
  EXPECT_EQ(desk.pool.set_buffers(first, 1).error().code, ENOENT);
  desk.pool.deregister_client(first);
}

TEST(Posting, PlacesForClientsAreLimited) {
  Desk desk(unlimited(64), {.buffers = 64, .clients = 2, .sources = 4});
  desk.join(1, 1);
  desk.join(2, 1);
  EXPECT_EQ(desk.pool.register_client(ClientKey(3), "third", 1).error().code, ENOSPC);
}

TEST(Posting, BelowTheLowThresholdMoreArePostedAndRemovedAboveTheHighOne) {
  Parameters parameters = unlimited(200);
  parameters.low_threshold = 6;
  parameters.high_threshold = 20;
  Desk desk(parameters);
  desk.join(kCommunication);
  EXPECT_EQ(desk.posted(), 16u);
  EXPECT_EQ(desk.flood(kCommunication, 1, 10), 10u);
  EXPECT_EQ(desk.posted(), 6u) << "not below the threshold yet";
  desk.send(kCommunication, 1);
  EXPECT_EQ(desk.posted(), 13u) << "the middle between the two";
  EXPECT_EQ(desk.pool.counters().posted_more.value(), 8u);
  desk.give_back(kCommunication, 7);
  EXPECT_EQ(desk.posted(), 20u);
  desk.give_back(kCommunication);
  EXPECT_EQ(desk.posted(), 20u) << "what was added above the high threshold is gone";
  EXPECT_EQ(desk.pool.counters().removed.value(), 4u);
}

TEST(Posting, WhatClientsAskedForIsNeverRemoved) {
  Parameters parameters = unlimited(200);
  parameters.low_threshold = 1;
  parameters.high_threshold = 2;
  Desk desk(parameters);
  desk.join(1);
  desk.join(2);
  EXPECT_EQ(desk.posted(), 32u);
  EXPECT_EQ(desk.flood(1, 1, 40), 40u);
  desk.give_back(1);
  EXPECT_EQ(desk.posted(), 32u);
}

TEST(Posting, ThresholdsGrowWithTheNumberOfClients) {
  Desk desk(unlimited(200));
  for (std::uint64_t clients = 1; clients <= 4; ++clients) {
    desk.join(clients);
    EXPECT_EQ(desk.pool.low_threshold(), 4 * clients);
    EXPECT_EQ(desk.pool.high_threshold(), 16 * clients);
  }
}

TEST(Posting, WithoutALowThresholdABufferIsPostedWhenADatagramNeedsIt) {
  Parameters parameters = unlimited(64);
  parameters.low_threshold = 0;
  parameters.high_threshold = 0;
  Desk desk(parameters);
  desk.join(1, 1);
  desk.join(2, 1);
  EXPECT_EQ(desk.flood(1, 1, 8), 8u);
  EXPECT_EQ(desk.send(2, 1), Discard::kNone);
  desk.give_back(1);
  desk.give_back(2);
  EXPECT_EQ(desk.posted(), 2u);
}

}  // namespace
}  // namespace softhca::management::gsa
