// Connections by the ways in which they are looked for, and who makes them.
#include "tests/unit/management/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

using Table = Parts;

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
  EXPECT_NE(factory.make_half_open(world.path(), State::kReqReceived), nullptr);
  EXPECT_NE(factory.make_half_open(world.path(), State::kReqReceived), nullptr);
  EXPECT_EQ(factory.make_half_open(world.path(), State::kReqReceived), nullptr);
  EXPECT_EQ(counters.requests_over_limit, 1u);
  const Path other{.local = kHere, .remote = Gid::from_ipv4(0x0a090003)};
  EXPECT_NE(factory.make_half_open(other, State::kReqReceived), nullptr);
  EXPECT_EQ(connections.half_open(), 3u);
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
