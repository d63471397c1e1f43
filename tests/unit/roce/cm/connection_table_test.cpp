// SPDX-License-Identifier: Apache-2.0

// The connection table: lookups by each key, and limits on half-open connections of each peer.
#include <arpa/inet.h>

#include "tests/unit/roce/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

struct Table : Parts {
  Connection* half_open(const Path& path) {
    return factory.make_half_open(path, State::kReqReceived, {}, now);
  }
};

TEST_F(Table, TheOldestThatNobodyWaitsForGivesWay) {
  local.limits.connections = 2;
  Connection* first = factory.make(world.path(), State::kReqSent);
  Connection* second = factory.make(world.path(), State::kReqSent);
  EXPECT_EQ(factory.make(world.path(), State::kReqSent), nullptr);
  const CommId gone = second->id;
  connections.release(*second);
  connections.release(*first);
  EXPECT_NE(factory.make(world.path(), State::kReqSent), nullptr);
  EXPECT_EQ(connections.find(gone), nullptr);
  EXPECT_EQ(counters.given_up, 1u);
}

TEST_F(Table, APeerMayHaveAsManyHalfOpenAsItLeaves) {
  local.limits.half_open = 4;
  EXPECT_NE(half_open(world.path()), nullptr);
  EXPECT_NE(half_open(world.path()), nullptr);
  EXPECT_EQ(half_open(world.path()), nullptr);
  EXPECT_EQ(counters.requests_over_limit, 1u);
  const Path other{.local = kHere, .remote = Gid::from_ipv4(0x0a090003)};
  EXPECT_NE(half_open(other), nullptr);
  EXPECT_EQ(connections.half_open(), 3u);
}

Path from(const char* address, Standing standing) {
  Gid remote;
  EXPECT_EQ(inet_pton(AF_INET6, address, remote.bytes.data()), 1);
  return {.local = kHere, .remote = remote, .standing = standing};
}

TEST_F(Table, HalfOpen_PeersOfOneIpv6Network_CountAsOnePeer) {
  local.limits.half_open = 16;
  unsigned made = 0;
  for (const char* address :
       {"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5", "2001:db8::6",
        "2001:db8::7", "2001:db8::8", "2001:db8::9", "2001:db8::a", "2001:db8::b", "2001:db8::c"})
    made += half_open(from(address, Standing::kAnswered)) != nullptr;
  EXPECT_EQ(made, 8u) << "one peer has as many as it leaves to others";
  EXPECT_NE(half_open(from("2001:db8:0:1::1", Standing::kAnswered)), nullptr);
  EXPECT_NE(half_open(from("2001:db8::1", Standing::kEstablished)), nullptr)
      << "a peer that was connected counts by its own address";
}

TEST_F(Table, HalfOpen_StrangersTakeAllTheyMay_AnEighthIsLeftForEstablishedPeers) {
  local.limits.half_open = 16;
  unsigned made = 0;
  for (std::uint32_t host = 0; host < 100; ++host)
    made += half_open({.remote = Gid::from_ipv4(0x0a0a0000 + host),
                       .standing = Standing::kAnswered}) != nullptr;
  EXPECT_EQ(made, 14u);
  Connection* c = half_open(world.path());
  ASSERT_NE(c, nullptr);
  connections.remove(*c);
  EXPECT_EQ(connections.half_open(), 14u);
}

TEST_F(Table, AnIdIsNeitherZeroNorTakenTwice) {
  world.next_random = 0;
  const CommId first = factory.make(world.path(), State::kReqSent)->id;
  EXPECT_EQ(first, CommId(1));
  world.next_random = 1;
  EXPECT_EQ(factory.make(world.path(), State::kReqSent)->id, CommId(2));
}

TEST_F(Table, APeersNamesAreListedOnceAndGoWithTheConnection) {
  Connection& a = *factory.make(world.path(), State::kReqReceived);
  Connection& b = *factory.make(world.path(), State::kReqReceived);
  a.remote_comm_id = b.remote_comm_id = kPeerId;
  EXPECT_TRUE(connections.list_peer(a));
  EXPECT_FALSE(connections.list_peer(b));
  EXPECT_TRUE(connections.list_queue_pair(a));
  const PeerKey key{kThere, 0, kPeerId};
  EXPECT_EQ(connections.find_peer(key), &a);
  connections.remove(b);
  EXPECT_EQ(connections.find_peer(key), &a) << "the other one's place stays";
  connections.remove(a);
  EXPECT_EQ(connections.find_peer(key), nullptr);
  EXPECT_EQ(connections.find_queue_pair({kThere, 0, Qpn(0)}), nullptr);
}

TEST_F(Table, TimersAreDueInTheirOrder) {
  Connection& a = *factory.make(world.path(), State::kReqSent);
  Connection& b = *factory.make(world.path(), State::kReqSent);
  connections.arm(a, now + Duration(2));
  connections.arm(b, now + Duration(1));
  EXPECT_EQ(connections.next_deadline(), now + Duration(1));
  EXPECT_EQ(connections.take_due(now), nullptr);
  EXPECT_EQ(connections.take_due(now + Duration(5)), &b);
  EXPECT_EQ(connections.take_due(now + Duration(5)), &a);
  EXPECT_EQ(connections.next_deadline(), kNever);
}

}  // namespace
}  // namespace softhca::management::cm
