// SPDX-License-Identifier: Apache-2.0

// Shares of clients, alone: what is promised, granted and left.
#include "daemon/qos/gsa/shares.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softhca::management::gsa {
namespace {

struct Promises : testing::Test {
  Promises() { parameters.buffers = 32; }

  std::uint32_t join(std::uint64_t key, std::uint32_t buffers) {
    EXPECT_TRUE(shares.check_room(0, buffers));
    const ClientId id = *clients.add({.key = ClientKey(key)});
    shares.set_asked(id.index, buffers);
    clients[id.index].told_share = buffers;
    return id.index;
  }
  void take(std::uint32_t i, bool borrowed, unsigned n = 1, bool of_new_source = false) {
    for (; n != 0; --n) shares.take(clients[i], borrowed, of_new_source);
  }

  Parameters parameters;
  PoolCounters counters;
  ClientTable clients{4};
  PostedBuffers posted{parameters, counters};
  Shares shares{parameters, clients, posted, counters};
};

TEST_F(Promises, AreGrantedAtOnceWhileBuffersAreSpare) {
  const std::uint32_t a = join(1, 20);
  EXPECT_EQ(clients[a].granted, 20u);
  EXPECT_EQ(shares.spare(), 12u);
  EXPECT_EQ(posted.posted(), 20u);
}

TEST_F(Promises, AreNotMadeTwice) {
  join(1, 20);
  EXPECT_EQ(shares.check_room(0, 13).error().code, ENOMEM);
  EXPECT_EQ(shares.check_room(0, 0).error().code, EINVAL);
  EXPECT_TRUE(shares.check_room(20, 32)) << "what it asked for before is its own";
}

TEST_F(Promises, AreGrantedAsBorrowedBuffersComeBack) {
  const std::uint32_t a = join(1, 8);
  take(a, true, 20);
  const std::uint32_t b = join(2, 16);
  EXPECT_EQ(clients[b].share, 16u);
  EXPECT_EQ(clients[b].granted, 4u);
  shares.give_back(&clients[a], true, false);
  EXPECT_EQ(clients[b].granted, 5u);
}

TEST_F(Promises, WhatAClientHoldsStaysReservedWhenItLeaves) {
  const std::uint32_t a = join(1, 8);
  take(a, false, 3);
  shares.remove(a);
  clients.remove(clients.id_of(a));
  EXPECT_EQ(shares.spare(), 29u);
  for (int n = 0; n < 3; ++n) shares.give_back(nullptr, false, false);
  EXPECT_EQ(shares.spare(), 32u);
}

TEST_F(Promises, BuffersOfNewSourcesAreCounted) {
  const std::uint32_t a = join(1, 8);
  take(a, true, 2, true);
  take(a, false, 1, true);
  EXPECT_EQ(shares.borrowed_by_new(), 2u);
  EXPECT_EQ(clients[a].own_of_new, 1u);
  shares.give_back(&clients[a], true, true);
  shares.give_back(&clients[a], false, true);
  EXPECT_EQ(shares.borrowed_by_new(), 1u);
  EXPECT_EQ(clients[a].own_of_new, 0u);
}

TEST_F(Promises, ARaisedShareGivesWayToWhatIsAskedFor) {
  const std::uint32_t a = join(1, 8);
  EXPECT_EQ(shares.most_for(clients[a]), 32u) << "four times";
  shares.raise(a, 32);
  EXPECT_EQ(shares.spare(), 0u);
  const auto change = shares.take_change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->old_share, 8u);
  EXPECT_EQ(change->new_share, 32u);
  join(2, 10);
  EXPECT_EQ(clients[a].share, 8u);
  EXPECT_EQ(counters.lowered.value(), 1u);
  EXPECT_EQ(shares.take_change()->new_share, 8u);
  EXPECT_FALSE(shares.take_change());
}

TEST_F(Promises, SeveralChangesAreToldAsOneAndNoneThatCameToNothing) {
  const std::uint32_t a = join(1, 8);
  shares.raise(a, 16);
  shares.lower(a, 8);
  EXPECT_FALSE(shares.take_change());
}

}  // namespace
}  // namespace softhca::management::gsa
