// SPDX-License-Identifier: Apache-2.0

// One manager, met by a scripted peer.
#include <gtest/gtest.h>

#include "tests/unit/roce/cm/world.hpp"

namespace softhca::management::cm {
namespace {

using namespace std::chrono_literals;

template <std::size_t size>
std::array<std::byte, size> counting() {
  std::array<std::byte, size> data;
  for (std::size_t i = 0; i < size; ++i) data[i] = std::byte(i + 1);
  return data;
}

TEST(Manager, AskedByAPeer) {
  World w;
  const CommId id = w.take_request();
  EXPECT_EQ(w.last_req.service_id, kService);
  EXPECT_EQ(w.last_path.remote, kThere);
  EXPECT_EQ(w.last_path.flow_label, 0x12345u);
  EXPECT_EQ(w.last_path.traffic_class, 8);
  EXPECT_EQ(w.last_path.hop_limit, 63);
  EXPECT_EQ(w.manager.half_open(), 1u);

  const auto data = counting<196>();
  EXPECT_EQ(w.manager.accept(id,
                             {.local_qpn = kOurQpn,
                              .starting_psn = Psn(0x100),
                              .responder_resources = 2,
                              .initiator_depth = 3,
                              .target_ack_delay = 15,
                              .private_data = data},
                             w.now),
            Result::kOk);
  const auto rep = wire::decode_cm<wire::CmRep>(w.mads.back());
  EXPECT_EQ(rep.local_comm_id, id.value);
  EXPECT_EQ(rep.remote_comm_id, kPeerId);
  EXPECT_EQ(rep.local_qpn, kOurQpn);
  EXPECT_EQ(rep.starting_psn, Psn(0x100));
  EXPECT_EQ(rep.responder_resources, 2);
  EXPECT_EQ(rep.initiator_depth, 3);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.local_ca_guid, kOurGuid);
  EXPECT_EQ(rep.private_data, data);
  EXPECT_EQ(wire::decode_mad_header(w.mads.back())->transaction_id, 7u);

  w.receive(wire::CmRtu{kPeerId, id.value, {}});
  EXPECT_EQ(w.take_events(), "established");
  EXPECT_EQ(w.manager.state(id), State::kEstablished);
  EXPECT_EQ(w.manager.half_open(), 0u);
  EXPECT_EQ(w.manager.next_deadline(), kNever);
}

TEST(Manager, WhatAQueuePairOfThePassiveSideNeeds) {
  World w;
  const CommId id = w.take_request();
  const auto before = w.manager.queue_pair_attributes(id);
  ASSERT_TRUE(before);
  EXPECT_TRUE(before->may_init);
  EXPECT_TRUE(before->may_connect);
  EXPECT_EQ(before->remote_qpn, kPeerQpn);
  EXPECT_EQ(before->rq_psn, Psn(0x200));
  EXPECT_EQ(before->responder_resources, 6);  // the peer's depth
  EXPECT_EQ(before->initiator_depth, 5);      // the peer's resources
  EXPECT_EQ(before->path_mtu, 3);
  EXPECT_EQ(before->retry_count, 7);
  EXPECT_EQ(before->rnr_retry_count, 6);
  EXPECT_EQ(before->ack_timeout, 19);
  EXPECT_EQ(before->path.remote, kThere);
  w.manager.accept(id, {.starting_psn = Psn(9), .responder_resources = 1, .initiator_depth = 2},
                   w.now);
  const auto after = w.manager.queue_pair_attributes(id);
  EXPECT_EQ(after->sq_psn, Psn(9));
  EXPECT_EQ(after->responder_resources, 1);
  EXPECT_EQ(after->initiator_depth, 2);
}

TEST(Manager, AsksAPeer) {
  World w;
  const auto data = counting<92>();
  const auto started = w.manager.connect({.cookie = 33,
                                          .path = {.local = kHere,
                                                   .remote = kThere,
                                                   .flow_label = 0xb40a0,
                                                   .traffic_class = 4,
                                                   .hop_limit = 64},
                                          .service_id = kService,
                                          .local_qpn = kOurQpn,
                                          .starting_psn = Psn(0x68e851),
                                          .path_mtu = 5,
                                          .responder_resources = 1,
                                          .initiator_depth = 2,
                                          .flow_control = false,
                                          .private_data = data},
                                         w.now);
  ASSERT_EQ(started.result, Result::kOk);
  const auto req = wire::decode_cm<wire::CmReq>(w.mads.at(0));
  EXPECT_EQ(req.local_comm_id, started.id.value);
  EXPECT_EQ(req.service_id, kService);
  EXPECT_EQ(req.local_ca_guid, kOurGuid);
  EXPECT_EQ(req.local_qpn, kOurQpn);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 2);
  EXPECT_EQ(req.remote_response_timeout, 20);
  EXPECT_EQ(req.local_response_timeout, 20);
  EXPECT_FALSE(req.end_to_end_flow_control);
  EXPECT_EQ(req.starting_psn, Psn(0x68e851));
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.primary.local_gid, kHere);
  EXPECT_EQ(req.primary.remote_gid, kThere);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.flow_label, 0xb40a0u);
  EXPECT_EQ(req.primary.traffic_class, 4);
  EXPECT_EQ(req.primary.local_ack_timeout, 19);
  EXPECT_FALSE(req.primary.subnet_local);
  EXPECT_EQ(req.alternate, wire::CmPath::none());
  EXPECT_EQ(req.private_data, data);
  const auto attributes = w.manager.queue_pair_attributes(started.id);
  EXPECT_TRUE(attributes->may_init);
  EXPECT_FALSE(attributes->may_connect);

  w.receive(w.peer_rep(started.id));
  EXPECT_EQ(w.take_events(), "replied");
  const auto replied = w.manager.queue_pair_attributes(started.id);
  EXPECT_TRUE(replied->may_connect);
  EXPECT_EQ(replied->remote_qpn, kPeerQpn);
  EXPECT_EQ(replied->rq_psn, Psn(0x200));
  EXPECT_EQ(replied->sq_psn, Psn(0x68e851));
  EXPECT_EQ(replied->responder_resources, 2);
  EXPECT_EQ(replied->initiator_depth, 1);
  EXPECT_EQ(replied->rnr_retry_count, 5);
  EXPECT_EQ(replied->ack_timeout, 19);
  w.take_sent();
  EXPECT_EQ(w.manager.confirm(started.id, w.now), Result::kOk);
  EXPECT_EQ(w.take_sent(), "RTU");
  EXPECT_EQ(w.manager.state(started.id), State::kEstablished);
}

TEST(Manager, TimesAreThoseOfLinux) {
  World w;
  const CommId id = w.connect();
  // 2 * 1.024 s of packet life time and 4.096 s of response timeout
  EXPECT_EQ(w.manager.next_deadline() - w.now, 6144ms);
  const Time start = w.now;
  while (w.manager.state(id)) w.wait();
  EXPECT_EQ(w.now - start, 16 * 6144ms);
  EXPECT_EQ(w.manager.counters().retries, 15u);
  EXPECT_EQ(w.manager.counters().timeouts, 1u);

  const CommId passive = w.take_request();
  w.manager.accept(passive, {}, w.now);
  EXPECT_EQ(w.manager.next_deadline() - w.now, 4096ms);
  w.receive(wire::CmRtu{kPeerId, passive.value, {}});
  w.manager.disconnect(passive, w.now);
  EXPECT_EQ(w.manager.next_deadline() - w.now, 4096ms);
  w.receive(wire::CmDrep{kPeerId, passive.value, {}});
  EXPECT_EQ(w.manager.next_deadline() - w.now, 2048ms);  // of the queue pair's timeout, 19
}

TEST(Manager, APeerThatThinksIsWaitedFor) {
  World w;
  const CommId id = w.connect();
  w.receive(wire::CmMra{.local_comm_id = 5,
                        .remote_comm_id = id.value,
                        .message = wire::CmMessage::kReq,
                        .service_timeout = 24});
  EXPECT_EQ(w.take_events(), "delayed");
  EXPECT_EQ(w.manager.next_deadline() - w.now, 65536ms + 1024ms);
  w.wait();
  EXPECT_EQ(w.manager.state(id), State::kReqSent);
  EXPECT_EQ(w.manager.next_deadline() - w.now, 6144ms);
}

TEST(Manager, NoPeerMakesThisSideWaitForEver) {
  World w({.longest_wait = 10s});
  const CommId id = w.connect();
  w.receive(wire::CmMra{.local_comm_id = 5,
                        .remote_comm_id = id.value,
                        .message = wire::CmMessage::kReq,
                        .service_timeout = 31});
  EXPECT_EQ(w.manager.next_deadline() - w.now, 10s);
  w.manager.destroy(id, w.now);
  auto req = w.peer_req();
  req.local_response_timeout = 31;
  req.primary.local_ack_timeout = 31;
  w.receive(req);
  w.manager.accept(w.requests.back(), {}, w.now);
  EXPECT_EQ(w.manager.next_deadline() - w.now, 10s);
}

TEST(Manager, SilenceLetsThePeerAskAgain) {
  World w;
  w.answer = Answer::silence();
  w.receive(w.peer_req());
  EXPECT_EQ(w.take_sent(), "");
  EXPECT_EQ(w.manager.size(), 0u);
  w.answer = Answer::take(1);
  w.receive(w.peer_req());
  EXPECT_EQ(w.manager.size(), 1u);
  EXPECT_EQ(w.requests.size(), 2u);
  EXPECT_NE(w.requests[0], w.requests[1]);
}

TEST(Manager, RefusesWhatNobodyListensFor) {
  World w;
  w.answer = Answer::refuse(wire::CmRejectReason::kInvalidServiceId);
  w.receive(w.peer_req(), 99);
  const auto rej = wire::decode_cm<wire::CmRej>(w.mads.at(0));
  EXPECT_EQ(rej.local_comm_id, 0u);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(wire::decode_mad_header(w.mads.at(0))->transaction_id, 99u);
  EXPECT_EQ(w.take_sent(), "REJ 8 about REQ");
  EXPECT_EQ(w.manager.size(), 0u);
}

TEST(Manager, ARefusalIsRememberedForDuplicates) {
  World w;
  const CommId id = w.take_request();
  const auto data = counting<148>();
  w.manager.reject(id, {.private_data = data}, w.now);
  const auto first = w.mads.back();
  EXPECT_EQ(wire::decode_cm<wire::CmRej>(first).private_data, data);
  w.receive(w.peer_req());
  EXPECT_EQ(w.mads.back(), first);
  EXPECT_EQ(w.requests.size(), 1u);
  w.wait();
  EXPECT_EQ(w.manager.size(), 0u);
  EXPECT_EQ(w.take_events(), "");
}

TEST(Manager, RtuAgainForARepThatCameAgain) {
  World w;
  const CommId id = w.connect();
  w.receive(w.peer_rep(id));
  const auto data = counting<224>();
  w.manager.confirm(id, w.now, data);
  const auto rtu = w.mads.back();
  EXPECT_EQ(wire::decode_cm<wire::CmRtu>(rtu).private_data, data);
  w.take_sent();
  w.receive(w.peer_rep(id));
  ASSERT_EQ(w.mads.size(), 1u);
  EXPECT_EQ(w.mads[0], rtu);
}

TEST(Manager, RetransmitsBeforeTheTimeout_WhatWaitsForAnAnswer) {
  World w;
  w.connect();
  w.enter(State::kEstablished);
  w.take_sent();
  w.manager.expire(w.now);
  EXPECT_EQ(w.take_sent(), "");
  w.manager.retransmit(w.now);
  w.manager.expire(w.now);
  EXPECT_EQ(w.take_sent(), "REQ");
  EXPECT_GT(w.manager.next_deadline(), w.now);
}

TEST(Manager, BothDisconnectAtOnce) {
  World w;
  const CommId id = w.enter(State::kDreqSent);
  w.receive(wire::CmDreq{kPeerId, id.value, kOurQpn, {}}, 1234);
  EXPECT_EQ(wire::decode_mad_header(w.mads.at(0))->transaction_id, 1234u);
  EXPECT_EQ(w.take_sent(), "DREP");
  EXPECT_EQ(w.take_events(), "disconnected");
  w.wait();
  EXPECT_EQ(w.take_events(), "time wait over");
  EXPECT_EQ(w.manager.size(), 0u);
}

TEST(Manager, ARestartedPeersRequestEndsTheOldConnection) {
  World w;
  const CommId old = w.enter(State::kEstablished);
  auto req = w.peer_req();
  req.local_comm_id = kPeerId + 1;
  w.receive(req);
  EXPECT_EQ(w.take_sent(), "REJ 10 about REQ, DREQ");
  EXPECT_EQ(w.requests.size(), 1u);
  // The peer knows nothing of it, and says so.
  w.receive(wire::CmDrep{kPeerId, old.value, {}});
  EXPECT_EQ(w.take_events(), "disconnected");
  req.local_comm_id = kPeerId + 2;
  w.receive(req);
  EXPECT_EQ(w.requests.size(), 2u);
}

TEST(Manager, AReplyFromAQueuePairInUseIsStale) {
  World w;
  const CommId old = w.enter(State::kEstablished);
  const CommId id = w.connect();
  auto rep = w.peer_rep(id);
  rep.local_comm_id = kPeerId + 1;
  w.take_sent();
  w.receive(rep);
  EXPECT_EQ(w.take_sent(), "REJ 10 about REP, DREQ");
  EXPECT_EQ(w.take_events(), "rejected 10");
  EXPECT_FALSE(w.manager.state(id));
  EXPECT_EQ(w.manager.state(old), State::kDreqSent);
}

TEST(Manager, ADestroyedConnectionStillTellsItsPeer) {
  World w;
  const CommId id = w.enter(State::kEstablished);
  w.manager.destroy(id, w.now);
  for (int i = 0; i < 3; ++i) w.wait();
  EXPECT_EQ(w.take_sent(), "DREQ, DREQ, DREQ, DREQ");
  w.receive(wire::CmDrep{kPeerId, id.value, {}});
  w.wait();
  EXPECT_EQ(w.manager.size(), 0u);
  EXPECT_EQ(w.take_events(), "");
}

TEST(Manager, GivingUpBeforeRtuIsFollowedByDreq) {
  World w;
  const CommId id = w.enter(State::kRepSent);
  w.manager.destroy(id, w.now);
  w.wait();
  EXPECT_EQ(w.take_sent(), "REJ 28 about other, DREQ");
  w.receive(wire::CmDrep{kPeerId, id.value, {}});
  w.wait();
  EXPECT_EQ(w.manager.size(), 0u);
}

TEST(Manager, ServiceIdResolution) {
  World w;
  const auto started =
      w.manager.sidr_request({.cookie = 5, .path = w.path(), .service_id = kService}, w.now);
  EXPECT_EQ(w.manager.next_deadline() - w.now, 4096ms);
  EXPECT_EQ(w.take_sent(), "SIDR_REQ");
  w.receive(wire::CmSidrRep{.request_id = started.id.value, .qpn = Qpn(3), .qkey = 4});
  EXPECT_EQ(w.take_events(), "sidr replied 0");
  EXPECT_EQ(w.manager.size(), 0u);

  w.receive(wire::CmSidrReq{.request_id = 9, .service_id = kService});
  const CommId id = w.sidr_requests.back();
  w.manager.sidr_reply(id, {.qpn = kOurQpn, .qkey = 0x01234567}, w.now);
  const auto rep = wire::decode_cm<wire::CmSidrRep>(w.mads.back());
  EXPECT_EQ(rep.request_id, 9u);
  EXPECT_EQ(rep.qpn, kOurQpn);
  EXPECT_EQ(rep.qkey, 0x01234567u);
  EXPECT_EQ(rep.service_id, kService);
  w.take_sent();
  w.receive(wire::CmSidrReq{.request_id = 9, .service_id = kService});
  EXPECT_EQ(w.take_sent(), "SIDR_REP 0");
  EXPECT_EQ(w.sidr_requests.size(), 1u);
  w.wait();
  EXPECT_EQ(w.manager.size(), 0u);

  w.answer = Answer::refuse(wire::CmSidrStatus::kUnsupported);
  w.receive(wire::CmSidrReq{.request_id = 10, .service_id = kService});
  EXPECT_EQ(w.take_sent(), "SIDR_REP 1");
  w.answer = Answer::silence();
  w.receive(wire::CmSidrReq{.request_id = 11, .service_id = kService});
  EXPECT_EQ(w.take_sent(), "");
  EXPECT_EQ(w.manager.size(), 0u);
}

TEST(Manager, PrivateDataMustFit) {
  World w;
  const std::vector<std::byte> data(300);
  const auto bytes = [&](std::size_t n) { return std::span(data).first(n); };
  EXPECT_EQ(w.manager.connect({.path = w.path(), .private_data = bytes(93)}, w.now).result,
            Result::kTooLong);
  EXPECT_EQ(w.manager.sidr_request({.path = w.path(), .private_data = bytes(217)}, w.now).result,
            Result::kTooLong);
  const CommId id = w.take_request();
  EXPECT_EQ(w.manager.accept(id, {.private_data = bytes(197)}, w.now), Result::kTooLong);
  EXPECT_EQ(w.manager.reject(id, {.private_data = bytes(149)}, w.now), Result::kTooLong);
  EXPECT_EQ(w.manager.reject(id, {.info = bytes(73)}, w.now), Result::kTooLong);
  EXPECT_EQ(w.manager.confirm(id, w.now, bytes(225)), Result::kTooLong);
  EXPECT_EQ(w.manager.disconnect(id, w.now, bytes(221)), Result::kTooLong);
  EXPECT_EQ(w.manager.sidr_reply(id, {.private_data = bytes(137)}, w.now), Result::kTooLong);
  EXPECT_EQ(w.manager.accept(id, {.private_data = bytes(196)}, w.now), Result::kOk);
}

TEST(Manager, ExtendedReliableConnections) {
  World w;
  const auto started = w.manager.connect(
      {.path = w.path(), .transport = Transport::kXrc, .local_qpn = kOurQpn}, w.now);
  const auto sent = wire::decode_cm<wire::CmReq>(w.mads.back());
  EXPECT_EQ(sent.transport, wire::CmTransport::kExtended);
  EXPECT_EQ(sent.extended_transport, 1);
  auto rep = w.peer_rep(started.id);
  rep.local_qpn = Qpn(0);
  rep.local_eecn = 0x33;
  w.receive(rep);
  EXPECT_EQ(w.manager.queue_pair_attributes(started.id)->remote_qpn, Qpn(0x33));

  auto req = w.peer_req();
  req.local_comm_id = kPeerId + 1;
  req.local_qpn = Qpn(0x44);
  req.transport = wire::CmTransport::kExtended;
  req.extended_transport = 1;
  w.receive(req);
  ASSERT_EQ(w.requests.size(), 1u);
  const CommId id = w.requests.back();
  EXPECT_EQ(w.manager.queue_pair_attributes(id)->transport, Transport::kXrc);
  w.manager.accept(id, {.local_qpn = kOurQpn}, w.now);
  EXPECT_EQ(wire::decode_cm<wire::CmRep>(w.mads.back()).local_eecn, kOurQpn.value);
}

TEST(Manager, ManyTimersAreTakenAFewAtATime) {
  World w;
  for (int i = 0; i < 1000; ++i) w.connect();
  w.take_sent();
  const Time due = w.manager.next_deadline();
  unsigned calls = 0;
  for (; w.manager.next_deadline() <= due; ++calls) w.manager.expire(due);
  EXPECT_EQ(w.mads.size(), 1000u);
  EXPECT_GE(calls, 2u);
  w.manager.expire(due);
  EXPECT_EQ(w.mads.size(), 1000u);
}

TEST(Manager, WhatOperatorsSee) {
  World w;
  const CommId id = w.enter(State::kEstablished);
  unsigned seen = 0;
  w.manager.for_each([&](const ConnectionView& view) {
    ++seen;
    EXPECT_EQ(view.id, id);
    EXPECT_EQ(view.cookie, 77u);
    EXPECT_EQ(view.service_id, kService);
    EXPECT_EQ(view.local_qpn, kOurQpn);
    EXPECT_EQ(view.remote_qpn, kPeerQpn);
    EXPECT_EQ(view.state, State::kEstablished);
    EXPECT_TRUE(view.has_user);
    EXPECT_FALSE(view.active);
  });
  EXPECT_EQ(seen, 1u);
  EXPECT_FALSE(w.manager.view(CommId(0)));
}

}  // namespace
}  // namespace softhca::management::cm
