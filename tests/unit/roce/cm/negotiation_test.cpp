// SPDX-License-Identifier: Apache-2.0

// What the ends tell each other of their queue pairs.
#include "daemon/roce/cm/negotiation.hpp"

#include <gtest/gtest.h>

namespace softhca::management::cm {
namespace {

TEST(Negotiation, TheActiveSideTakesWhatTheReplySays) {
  Negotiation n;
  n.request({.local_qpn = Qpn(0x11),
             .starting_psn = Psn(0x100),
             .packet_life_time = 18,
             .responder_resources = 3,
             .initiator_depth = 4});
  EXPECT_EQ(n.sq_psn, Psn(0x100));
  EXPECT_EQ(n.ack_timeout, 19);
  n.take_reply({.starting_psn = Psn(0x200),
                .responder_resources = 1,
                .initiator_depth = 2,
                .target_ack_delay = 19,
                .rnr_retry_count = 5,
                .srq = true});
  EXPECT_EQ(n.rq_psn, Psn(0x200));
  EXPECT_EQ(n.initiator_depth, 1) << "what the peer answers";
  EXPECT_EQ(n.responder_resources, 2) << "what the peer starts";
  EXPECT_EQ(n.rnr_retry_count, 5);
  EXPECT_EQ(n.ack_timeout, 20) << "with the peer's delay";
  EXPECT_TRUE(n.peer_has_srq);
}

TEST(Negotiation, ThePassiveSideTakesWhatTheRequestSays) {
  Negotiation n;
  wire::CmReq req{.local_qpn = Qpn(0x22),
                  .responder_resources = 5,
                  .initiator_depth = 6,
                  .transport = wire::CmTransport::kUnreliableConnected,
                  .path_mtu = 3};
  req.primary.local_ack_timeout = 0;
  n.take_request(req);
  EXPECT_EQ(n.transport, Transport::kUc);
  EXPECT_EQ(n.remote_qpn, Qpn(0x22));
  EXPECT_EQ(n.initiator_depth, 5);
  EXPECT_EQ(n.responder_resources, 6);
  EXPECT_EQ(n.ack_timeout, 1) << "at least";
  EXPECT_EQ(n.packet_life_time, 0);
  n.accept({.local_qpn = Qpn(0x33), .responder_resources = 2, .initiator_depth = 1});
  EXPECT_EQ(n.local_qpn, Qpn(0x33));
  EXPECT_EQ(n.initiator_depth, 1);
  EXPECT_EQ(n.responder_resources, 2);
}

TEST(Negotiation, AQueuePairCanBeConnectedWhenThePeerIsKnown) {
  const Negotiation n;
  EXPECT_TRUE(n.attributes(State::kReqSent, {}).may_init);
  EXPECT_FALSE(n.attributes(State::kReqSent, {}).may_connect);
  EXPECT_TRUE(n.attributes(State::kRepReceived, {}).may_connect);
  EXPECT_TRUE(n.attributes(State::kReqReceived, {}).may_connect);
  EXPECT_FALSE(n.attributes(State::kTimeWait, {}).may_init);
}

TEST(Negotiation, AnXrcTargetIsNamedByItsContext) {
  const wire::CmRep rep{.local_qpn = Qpn(1), .local_eecn = 2};
  EXPECT_EQ(queue_pair_of(rep, Transport::kRc), Qpn(1));
  EXPECT_EQ(queue_pair_of(rep, Transport::kXrc), Qpn(2));
}

TEST(Negotiation, TheAcknowledgeTimeoutIsTheSumOfPathAndDelay) {
  EXPECT_EQ(ack_timeout_of(18, 0), 19);
  EXPECT_EQ(ack_timeout_of(18, 18), 20);
  EXPECT_EQ(ack_timeout_of(18, 25), 25);
  EXPECT_EQ(ack_timeout_of(31, 31), 31);
}

}  // namespace
}  // namespace softhca::management::cm
