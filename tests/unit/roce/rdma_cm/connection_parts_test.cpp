// SPDX-License-Identifier: Apache-2.0

// Listeners, requests of peers, events of connections, memberships and queue pair attributes, each
// without a service.
#include <cerrno>

#include "daemon/roce/rdma_cm/connections/connection_events.hpp"
#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"
#include "daemon/roce/rdma_cm/connections/peer_requests.hpp"
#include "daemon/roce/rdma_cm/connections/private_data.hpp"
#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"
#include "daemon/roce/rdma_cm/identifier_options.hpp"
#include "daemon/roce/rdma_cm/multicast_joins.hpp"
#include "tests/unit/roce/rdma_cm/parts.hpp"

namespace softhca::management::rdma_cm {
namespace {

struct Listening : Parts {
  int listen(const Identifier& of, int backlog = 0) {
    const rdma_ucm_listen body{.id = of.number.value,
                               .backlog = static_cast<std::uint32_t>(backlog)};
    return listeners.listen(command(channel, body));
  }
  Channel& channel = open();
  IdentifierListeners listeners{environment, limits, binding, ports, identifiers};
};

TEST_F(Listening, ListenersOfAPortAreFoundInTheirOrder) {
  Identifier& id = make_bound(channel);
  EXPECT_EQ(listen(id), 0);
  ASSERT_NE(listeners.at(PortSpace::kTcp, id.local.port), nullptr);
  EXPECT_EQ(*listeners.at(PortSpace::kTcp, id.local.port), std::vector{id.number});
  EXPECT_EQ(listeners.at(PortSpace::kUdp, id.local.port), nullptr);
  EXPECT_EQ(listen(id), EINVAL) << "it listens already";
  listeners.remove(id);
  EXPECT_EQ(listeners.at(PortSpace::kTcp, id.local.port), nullptr);
  EXPECT_EQ(listeners.size(), 0u);
}

TEST_F(Listening, ThereAreSoManyListenersAndBacklogs) {
  limits.listeners = 1;
  limits.backlog = 5;
  Identifier& id = make_bound(channel);
  EXPECT_EQ(listen(id, 100), 0);
  EXPECT_EQ(id.listener.backlog, 5u);
  EXPECT_EQ(listen(make_bound(channel)), ENOSPC);
  EXPECT_EQ(environment.refused[Refusal::kListeners], 1);
}

struct Requests : Listening {
  Requests() {
    EXPECT_EQ(listen(listener, 1), 0);
    wire::encode(wire::CmIpHeader{.ip_version = 4,
                                  .source_port = 9,
                                  .source = to_header(kPeer),
                                  .destination = to_header(kOwn)},
                 std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    req.service_id = listener.service_id(listener.local.port);
    req.path_mtu = 3;
  }
  cm::Answer ask(std::uint32_t id = 5) {
    return requests.on_request({cm::CommId(id), path, req, now});
  }

  Identifier& listener = make_bound(channel);
  const cm::Path path{.local = kOwn, .remote = kPeer};
  wire::CmReq req;
  AdmissionControl admission{environment, limits};
  PeerRequests requests{core, listeners, admission};
};

TEST_F(Requests, ARequestBecomesAnIdentifierThatNobodyCanNameYet) {
  const cm::Answer answer = ask();
  ASSERT_EQ(answer.kind, cm::Answer::Kind::kTake);
  Identifier* const request = identifiers.find_cookie(answer.cookie);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->channel, ChannelId());
  EXPECT_EQ(request->remote, at(kPeer, 9));
  EXPECT_EQ(request->connection.role, Role::kPassive);
  EXPECT_EQ(request->connection.began, now);
  EXPECT_EQ(request->route->mtu, 3) << "no more than the peer's";
  EXPECT_EQ(events_of(channel), Events{EventType::kConnectRequest});
}

TEST_F(Requests, AFullBacklogIsSilent) {
  ask();
  EXPECT_EQ(ask(6).kind, cm::Answer::Kind::kSilence);
  EXPECT_EQ(environment.refused[Refusal::kBacklog], 1);
}

TEST_F(Requests, ARequestThatNobodyServesIsRefused) {
  req.service_id += 1;
  EXPECT_EQ(ask().reason, wire::CmRejectReason::kInvalidServiceId);
  req.service_id = ~std::uint64_t{0};
  EXPECT_EQ(ask().reason, wire::CmRejectReason::kInvalidServiceId);
  EXPECT_EQ(environment.rejects_sent[wire::CmRejectReason::kInvalidServiceId], 2);
}

TEST_F(Requests, AHeaderThatNamesOtherAddressesIsRefused) {
  req.private_data[wire::CmIpHeader::kBytes - 1] ^= std::byte{1};
  EXPECT_EQ(ask().reason, wire::CmRejectReason::kConsumer);
  EXPECT_EQ(identifiers.size(), 1u);
}

struct Told : Parts {
  Told() {
    id.state = IdentifierState::kConnect;
    id.connection.role = Role::kPassive;
    id.connection.id = cm::CommId(5);
    id.connection.began = now;
  }
  void tell(cm::Event event) {
    event.cookie = id.cookie();
    event.now = now + std::chrono::seconds(2);
    connection_events.on_event(event);
  }
  Channel& channel = open();
  Identifier& id = make_bound(channel);
  AdmissionControl admission{environment, limits};
  ConnectionEvents connection_events{environment, addresses, identifiers, events, admission};
};

TEST_F(Told, TheTimeToAConnectionIsCounted) {
  tell({.kind = cm::Event::Kind::kEstablished});
  EXPECT_EQ(events_of(channel), Events{EventType::kEstablished});
  EXPECT_EQ(environment.established, std::vector<Duration>{std::chrono::seconds(2)});
}

TEST_F(Told, AConnectionIsDisconnectedOnce) {
  tell({.kind = cm::Event::Kind::kDisconnectRequested});
  tell({.kind = cm::Event::Kind::kDisconnected});
  tell({.kind = cm::Event::Kind::kTimeWaitOver});
  EXPECT_EQ(events_of(channel), (Events{EventType::kDisconnected, EventType::kTimewaitExit}));
  EXPECT_FALSE(id.connection.id);
}

TEST_F(Told, ARejectionEndsTheConnection) {
  const wire::CmRej rej{.reason = wire::CmRejectReason::kConsumer};
  tell({.kind = cm::Event::Kind::kRejected, .rej = &rej});
  EXPECT_EQ(events_of(channel), Events{EventType::kRejected});
  EXPECT_EQ(environment.rejects_received[wire::CmRejectReason::kConsumer], 1);
  EXPECT_FALSE(id.connection.id);
}

TEST_F(Told, AnEventOfAnIdentifierThatIsGoneIsNone) {
  connection_events.on_event({.kind = cm::Event::Kind::kEstablished, .cookie = ~std::uint64_t{0}});
  EXPECT_EQ(events_of(channel), Events{});
}

TEST_F(Told, AQueuePairIsBroughtUpByWhatIsKnown) {
  ib_uverbs_qp_attr to{.qp_state = 2};
  cm::QueuePairAttributes known{.may_init = true, .remote_qpn = Qpn(9)};
  EXPECT_FALSE(connected_attributes(id, known, addresses, to)) << "RTR needs the peer's part";
  known.may_connect = true;
  known.path = {.local = kOwnToo, .remote = kPeer};
  EXPECT_TRUE(connected_attributes(id, known, addresses, to));
  EXPECT_EQ(to.dest_qp_num, 9u);
  EXPECT_EQ(to.ah_attr.grh.sgid_index, 2);
  EXPECT_EQ(to.ah_attr.port_num, 2);
}

struct Groups : Parts {
  int join(std::uint32_t group = 0xe0000105) {
    const rdma_ucm_join_ip_mcast body{
        .uid = 5, .addr = to_sockaddr(at(Gid::from_ipv4(group), 0)), .id = id.number.value};
    return multicast.join(command(channel, body));
  }
  Channel& channel = open();
  Identifier& id = make_bound(channel, PortSpace::kUdp);
  MulticastJoins multicast{core};
};

TEST_F(Groups, AMembershipHasEventsUntilItIsLeft) {
  EXPECT_EQ(join(0x0a000009), EINVAL) << "no group";
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(multicast.memberships(), 1u);
  EXPECT_EQ(channel.events.size(), 1u);
  const rdma_ucm_destroy_id body{.id = 0};
  EXPECT_EQ(multicast.leave(command(open(), body)), EINVAL) << "another channel's";
  EXPECT_EQ(multicast.leave(command(channel, body)), 0);
  EXPECT_EQ(events_of(channel), Events{});
  EXPECT_EQ(multicast.memberships(), 0u);
  EXPECT_EQ(multicast.leave(command(channel, body)), ENOENT);
}

TEST_F(Groups, ThereAreSoManyMemberships) {
  limits.identifiers = 2;
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(join(), EMFILE);
  multicast.leave_all(id);
  EXPECT_EQ(multicast.memberships(), 0u);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
