// SPDX-License-Identifier: Apache-2.0

// CONNECT, ACCEPT, REJECT, DISCONNECT and NOTIFY on connections of a manager, without a service.
#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"

#include <cerrno>

#include "tests/unit/roce/rdma_cm/peer.hpp"

namespace softhca::management::rdma_cm {
namespace {

using wire::CmRejectReason;

struct Commands : WithPeer {
  int reject(std::uint8_t reason = 0) {
    rdma_ucm_reject body{};
    body.id = id.number.value;
    body.reason = reason;
    return commands.reject(command(channel, body));
  }
  int disconnect() {
    return commands.disconnect(command(channel, rdma_ucm_disconnect{.id = id.number.value}));
  }
  int notify(std::uint32_t event) {
    return commands.notify(
        command(channel, rdma_ucm_notify{.id = id.number.value, .event = event}));
  }
};

TEST_F(Commands, ConnectAsksForWhatTheProgramSays) {
  ASSERT_EQ(connect(), 0);
  EXPECT_EQ(id.state, IdentifierState::kConnect);
  EXPECT_EQ(id.connection.role, Role::kActive);
  EXPECT_EQ(connection_state(), cm::State::kReqSent);
  exchange();
  const wire::CmReq& req = peer_user.request_message;
  EXPECT_EQ(req.local_qpn, Qpn(0x55));
  EXPECT_EQ(req.service_id, id.service_id(9));
  EXPECT_EQ(req.path_mtu, 4);
  EXPECT_EQ(req.retry_count, 7) << "the most there is";
  EXPECT_EQ(req.rnr_retry_count, 6);
  EXPECT_EQ(connect(), EINVAL) << "it is connecting already";
}

TEST_F(Commands, ConnectNeedsParametersARouteAndTheAddress) {
  rdma_ucm_connect body = connect_body(id);
  body.conn_param.valid = 0;
  EXPECT_EQ(commands.connect(command(channel, body)), EINVAL);
  id.state = IdentifierState::kAddressResolved;
  EXPECT_EQ(connect(), EINVAL);
  id.state = IdentifierState::kRouteResolved;
  environment.own = {{kOwnToo, 2}};
  EXPECT_EQ(connect(), EADDRNOTAVAIL);
  environment.own = {{kOwn, 1}};
  EXPECT_EQ(commands.connect(command(open(), connect_body(id))), EINVAL) << "another channel's";
  id.remote = at(Gid::from_ipv4(0xe0000105), 9);
  EXPECT_EQ(connect(), EINVAL) << "a group";
  EXPECT_EQ(environment.sent, 0u);
}

TEST_F(Commands, Connect_QueuePairOfAnotherUser_RefusedAndNothingIsSent) {
  environment.foreign = Qpn(0x55);
  EXPECT_EQ(connect(), EPERM);
  EXPECT_EQ(environment.sent, 0u);
  environment.foreign = Qpn(0x56);
  EXPECT_EQ(connect(), 0);
}

TEST_F(Commands, AConnectBeyondTheLimitIsRefusedAndMayBeTriedAgain) {
  manager.set_limits({.connections = 0});
  EXPECT_EQ(connect(), ENOMEM);
  EXPECT_EQ(environment.refused[Refusal::kConnections], 1);
  EXPECT_EQ(id.state, IdentifierState::kRouteResolved);
  EXPECT_FALSE(id.connection.admitted);
  manager.set_limits({});
  EXPECT_EQ(connect(), 0);
}

TEST_F(Commands, TheReplyIsConfirmedByAcceptWithoutParameters) {
  be_replied();
  EXPECT_EQ(user.events, std::vector{cm::Event::Kind::kReplied});
  now += std::chrono::seconds(3);
  EXPECT_EQ(accept(false), 0);
  EXPECT_EQ(connection_state(), cm::State::kEstablished);
  EXPECT_EQ(environment.established, std::vector<Duration>{std::chrono::seconds(3)});
  EXPECT_EQ(id.uid, 77u) << "that of the identifier stays";
  EXPECT_EQ(accept(false), EINVAL) << "it is confirmed";
}

TEST_F(Commands, OnlyOneWhoWasAskedAcceptsWithParameters) {
  be_replied();
  EXPECT_EQ(accept(true), EINVAL);
  EXPECT_EQ(connection_state(), cm::State::kRepReceived) << "and nothing happened";
}

TEST_F(Commands, AcceptRepliesAndNamesTheIdentifierAnew) {
  be_asked();
  EXPECT_EQ(accept(true), 0);
  EXPECT_EQ(id.uid, 99u);
  EXPECT_EQ(connection_state(), cm::State::kRepSent);
  exchange();
  EXPECT_EQ(peer_user.rep.local_qpn, Qpn(0x66));
}

TEST_F(Commands, AnAcceptThatFailsTellsThePeer) {
  be_asked();
  EXPECT_EQ(accept(true, 255), EINVAL) << "REP has no room for so much private data";
  exchange();
  EXPECT_EQ(peer_user.reject_reason, CmRejectReason::kConsumer);
  EXPECT_EQ(environment.rejects_sent[CmRejectReason::kConsumer], 1);
  EXPECT_FALSE(id.connection.id);
  EXPECT_EQ(id.uid, 77u);
}

TEST_F(Commands, RejectGivesItsReason) {
  be_asked();
  EXPECT_EQ(reject(5), EINVAL) << "no reason of a program's";
  EXPECT_EQ(reject(35), 0);
  exchange();
  EXPECT_EQ(peer_user.reject_reason, CmRejectReason::kVendorOption);
  EXPECT_EQ(environment.rejects_sent[CmRejectReason::kVendorOption], 1);
  EXPECT_EQ(reject(), EINVAL) << "there is nothing to reject any more";
  be_asked();
  EXPECT_EQ(reject(), 0);
  exchange();
  EXPECT_EQ(peer_user.reject_reason, CmRejectReason::kConsumer);
}

TEST_F(Commands, DisconnectIsNoErrorWhereNothingIsConnectedAnyMore) {
  EXPECT_EQ(disconnect(), EINVAL) << "nor was it ever";
  be_established();
  EXPECT_EQ(disconnect(), 0);
  EXPECT_EQ(connection_state(), cm::State::kDreqSent);
  EXPECT_EQ(disconnect(), 0);
  exchange();
  EXPECT_EQ(peer_user.events.back(), cm::Event::Kind::kDisconnectRequested);
  id.connection.id.reset();
  EXPECT_EQ(disconnect(), 0);
}

TEST_F(Commands, AMessageThatComesBeforeRtuEstablishes) {
  EXPECT_EQ(notify(4), EINVAL);
  be_asked();
  ASSERT_EQ(accept(true), 0);
  EXPECT_EQ(notify(5), EINVAL) << "another event";
  EXPECT_EQ(notify(4), 0);
  EXPECT_EQ(connection_state(), cm::State::kEstablished);
  EXPECT_EQ(notify(4), EISCONN);
}

TEST_F(Commands, TheEndTellsThePeerWhatItsStateAsksFor) {
  commands.end(id, now);
  EXPECT_EQ(environment.sent, 0u);
  ASSERT_EQ(connect(), 0);
  commands.end(id, now);
  EXPECT_EQ(environment.rejects_sent[CmRejectReason::kTimeout], 1);
  EXPECT_FALSE(id.connection.id);
  exchange();
  be_asked();
  commands.end(id, now);
  EXPECT_EQ(environment.rejects_sent[CmRejectReason::kConsumer], 1);
  exchange();
  EXPECT_EQ(peer_user.reject_reason, CmRejectReason::kConsumer);
}

TEST_F(Commands, TheEndOfAConnectionIsADisconnect) {
  be_established();
  commands.end(id, now);
  exchange();
  EXPECT_EQ(peer_user.events.back(), cm::Event::Kind::kDisconnectRequested);
  EXPECT_TRUE(environment.rejects_sent.empty());
}

struct DatagramCommands : Commands {
  DatagramCommands() { id.space = PortSpace::kUdp; }
};

TEST_F(DatagramCommands, ConnectAsksForTheQueuePairBehindTheService) {
  EXPECT_EQ(connect(), 0);
  EXPECT_EQ(connection_state(), cm::State::kSidrReqSent);
  limits.connects_per_second = 1;
  for (int i = 0; i < 2; ++i) {
    id.state = IdentifierState::kRouteResolved;
    (void)connect();
  }
  id.state = IdentifierState::kRouteResolved;
  EXPECT_EQ(connect(), EAGAIN);
}

TEST_F(DatagramCommands, AcceptAnswersAndIsOver) {
  be_asked();
  now += std::chrono::seconds(1);
  EXPECT_EQ(accept(true), 0);
  EXPECT_FALSE(id.connection.id);
  EXPECT_EQ(environment.established, std::vector<Duration>{std::chrono::seconds(1)});
  exchange();
  EXPECT_EQ(peer_user.sidr_status, wire::CmSidrStatus::kValid);
}

TEST_F(DatagramCommands, RejectAnswersToo) {
  be_asked();
  EXPECT_EQ(reject(), 0);
  EXPECT_FALSE(id.connection.id);
  exchange();
  EXPECT_EQ(peer_user.sidr_status, wire::CmSidrStatus::kReject);
}

TEST_F(DatagramCommands, OneWhoAskedHasNothingToReject) {
  ASSERT_EQ(connect(), 0);
  EXPECT_EQ(reject(), EINVAL);
  EXPECT_TRUE(id.connection.id);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
