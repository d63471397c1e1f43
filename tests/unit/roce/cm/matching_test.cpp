// SPDX-License-Identifier: Apache-2.0

// Which connection a message is for.
#include "daemon/roce/cm/matching.hpp"

#include "tests/unit/roce/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

struct Matching : Parts {
  Matching() : connection(*factory.make(world.path(), State::kReqSent)) {}
  std::uint32_t id() const { return connection.id.value; }
  Connection* find(std::uint32_t remote) { return match(connections, id(), remote, world.path()); }
  Connection* find_answer(std::uint32_t remote) {
    return match_answer(connections, id(), remote, world.path());
  }
  Connection& connection;
};

TEST_F(Matching, AMessageNamesBothIds) {
  connection.remote_comm_id = kPeerId;
  EXPECT_EQ(find(kPeerId), &connection);
  EXPECT_EQ(find(kPeerId + 1), nullptr);
  EXPECT_EQ(match(connections, id() + 1, kPeerId, world.path()), nullptr);
  EXPECT_EQ(find_answer(kPeerId), &connection);
  EXPECT_EQ(find_answer(kPeerId + 1), nullptr);
}

TEST_F(Matching, OnlyAFirstAnswerNamesAnIdThatIsNotKnown) {
  EXPECT_EQ(find(kPeerId), nullptr);
  EXPECT_EQ(find(0), nullptr);
  EXPECT_EQ(find_answer(kPeerId), &connection);
}

TEST_F(Matching, AnotherHostIsNotThePeer) {
  connection.remote_comm_id = kPeerId;
  const Path other{.local = kHere, .remote = Gid::from_ipv4(0x0a090003)};
  EXPECT_EQ(match(connections, id(), kPeerId, other), nullptr);
  EXPECT_EQ(match_answer(connections, id(), kPeerId, other), nullptr);
  EXPECT_EQ(match_rejected(connections, {.local_comm_id = kPeerId, .remote_comm_id = id()}, other),
            nullptr);
}

TEST_F(Matching, AServiceIdResolutionIsNoConnection) {
  connections.set_state(connection, State::kSidrReqSent);
  connection.remote_comm_id = kPeerId;
  EXPECT_EQ(find(kPeerId), nullptr);
  EXPECT_EQ(find_answer(kPeerId), nullptr);
}

TEST_F(Matching, APeerThatGivesUpItsRequestNamesItsAdapter) {
  Connection& half_open = *factory.make(world.path(), State::kReqReceived);
  half_open.remote_comm_id = kPeerId;
  half_open.remote_ca_guid = kPeerGuid;
  connections.list_peer(half_open);
  wire::CmRej rej{.local_comm_id = kPeerId, .reason = wire::CmRejectReason::kTimeout};
  std::fill_n(rej.info.begin(), 8, std::byte{0x22});
  EXPECT_EQ(match_rejected(connections, rej, world.path()), &half_open);
  rej.reason = wire::CmRejectReason::kConsumer;
  EXPECT_EQ(match_rejected(connections, rej, world.path()), nullptr);
}

}  // namespace
}  // namespace softhca::management::cm
