// SPDX-License-Identifier: Apache-2.0

// Assigns received packets to queue pairs, also shared ones. These tests need no engine.
#include "daemon/engine/demux.hpp"

#include "tests/unit/engine/fixture/datagram_parts.hpp"

namespace softhca::engine {
namespace {

using transport::Count;

const Gid kDemuxGroup = Gid::from_ipv4(0xe0000109);  // 224.0.1.9

class DemuxTest : public DatagramParts {
 protected:
  DemuxTest() { far.introduce(); }

  wire::Headers send_to(const TestQp& test, Psn psn = Psn(0xfffff0)) {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
    h.destination = test.qp.qpn;
    h.psn = psn;
    h.ack_request = true;
    return h;
  }
  std::uint64_t dropped(FrameDrop why) {
    return far.binding().drops.frame[static_cast<std::size_t>(why)].value();
  }
  std::uint64_t dropped() {
    std::uint64_t all = 0;
    for (const auto& counter : far.binding().drops.frame) all += counter.value();
    return all;
  }
  std::size_t sent_back() {
    packets.finish_batch();
    return far.receive().size();
  }

  Buffer& into = make_buffer(512);
};

TEST_F(DemuxTest, APacketIsForTheQueuePairItNames) {
  TestQp& test = make_connected();
  TestQp& other = make_connected();
  for (TestQp* each : {&test, &other}) post_receive(*each, into);
  arrive(send_to(test));
  const auto done = cq.poll();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->qpn, test.qp.qpn.value);
  expect_nothing();
  EXPECT_EQ(dropped(), 0u);
}

TEST_F(DemuxTest, NobodysPacketIsCounted) {
  TestQp& test = make_connected();
  wire::Headers h = send_to(test);
  h.destination = Qpn(test.qp.qpn.value ^ 0x800000);
  arrive(h);
  EXPECT_EQ(dropped(FrameDrop::kUnknownQueuePair), 1u);
}

TEST_F(DemuxTest, AnotherTransportIsCounted) {
  TestQp& test = make_connected();
  for (const auto opcode :
       {wire::Opcode::kUcSendOnly, wire::Opcode::kUdSendOnly, wire::Opcode::kXrcSendOnly}) {
    wire::Headers h = send_to(test);
    h.opcode = wire::raw(opcode);
    arrive(h);
  }
  EXPECT_EQ(dropped(FrameDrop::kWrongTransport), 3u);
}

TEST_F(DemuxTest, AnotherPartitionIsCountedAndALimitedMemberIsNone) {
  TestQp& test = make_connected();
  wire::Headers h = send_to(test);
  h.pkey = 0x8001;
  arrive(h);
  EXPECT_EQ(dropped(FrameDrop::kPartitionKey), 1u);
  h.pkey = 0x7fff;
  arrive(h);
  EXPECT_EQ(dropped(), 1u);
}

TEST_F(DemuxTest, OnlyItsPeerReachesAConnection) {
  TestQp& test = make_connected();
  arrive(send_to(test), {}, {.source = address(9)});
  arrive(send_to(test), {}, {.destination = address(9)});
  EXPECT_EQ(dropped(FrameDrop::kForeignPeer), 2u);
  FarEnd elsewhere(packets, clock, address(1), kFar);
  elsewhere.put(elsewhere.packet(send_to(test)));
  packets.receive([this](PortBinding& binding, const wire::ParsedFrame& frame) {
    demux.receive(binding, frame);
  });
  const auto& drops = elsewhere.binding().drops;
  EXPECT_EQ(drops.frame[static_cast<std::size_t>(FrameDrop::kForeignPeer)].value(), 1u)
      << "by another port, and counted there";
  EXPECT_EQ(dropped(FrameDrop::kForeignPeer), 2u);
  EXPECT_EQ(tenant.counters.wire.rx_packets.value(), 0u);
}

TEST_F(DemuxTest, APeerInThisDaemonSendsNoPackets) {
  TestQp& near = make_qp();
  connect(near, make_qp());
  arrive(send_to(near), {}, {.source = kNear});
  EXPECT_EQ(dropped(FrameDrop::kForeignPeer), 1u);
}

TEST_F(DemuxTest, ADatagramComesToAnAddressOfItsTenant) {
  TestQp& test = make_ud();
  post_receive(test, into);
  const wire::Headers h = datagram_to(test.qp.qpn, kQkey);
  arrive(h, {}, {.destination = address(9)});
  EXPECT_EQ(dropped(FrameDrop::kUnknownAddress), 1u);
  expect_nothing();
  arrive(h);
  EXPECT_TRUE(cq.poll());
}

TEST_F(DemuxTest, ADatagramForAServiceGoesToItsClients) {
  SharedQp& service = open();
  arrive(datagram_to(kGeneralServicesQpn, kGeneralServicesQkey), message());
  ASSERT_NE(service.front(), nullptr);
  EXPECT_EQ(service.front()->tenant, tenant.id);
  arrive(datagram_to(kGeneralServicesQpn, kGeneralServicesQkey), message(),
         {.destination = address(9)});
  EXPECT_EQ(dropped(FrameDrop::kUnknownAddress), 1u);
  EXPECT_EQ(service.counters().received.value(), 1u);
  service.pop();
}

// --- congestion

TEST_F(DemuxTest, ANotificationSlowsItsQueuePairDown) {
  TestQp& test = make_connected();
  congestion_parameters.mode = CongestionMode::kOn;
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kCnp);
  h.destination = test.qp.qpn;
  arrive(h);
  EXPECT_EQ(tenant.counters.congestion.cnps_handled.value(), 1u);
  EXPECT_TRUE(test.qp.connection.flow.limited());
  EXPECT_EQ(tenant.counters.wire.rx_packets.value(), 1u);
}

TEST_F(DemuxTest, AMarkIsToldToTheSenderAndThePacketGoesOn) {
  TestQp& test = make_connected();
  congestion_parameters.mode = CongestionMode::kOn;
  post_receive(test, into);
  arrive(send_to(test), {}, {.traffic_class = wire::kEcnCongested});
  EXPECT_EQ(tenant.counters.congestion.cnps_sent.value(), 1u);
  EXPECT_TRUE(cq.poll());
  packets.finish_batch();
  EXPECT_EQ(next_sent().opcode, wire::raw(wire::Opcode::kCnp));
}

// --- connections that are gone

class Late : public DemuxTest {
 protected:
  Late() {
    post_receive(gone, into);
    h = send_to(gone);
    arrive(h);
    remove(gone);
    sent_back();
  }
  std::uint64_t unknown() { return dropped(FrameDrop::kUnknownQueuePair); }

  TestQp& gone = make_connected();
  wire::Headers h;
};

TEST_F(Late, WhatWasExecutedIsAcknowledgedOnceMore) {
  arrive(h);
  packets.finish_batch();
  const wire::Headers answer = next_sent();
  EXPECT_EQ(answer.opcode, wire::raw(wire::Opcode::kRcAck));
  EXPECT_EQ(answer.psn, h.psn);
  EXPECT_EQ(answer.destination, kPeer);
  EXPECT_EQ(unknown(), 0u);
  h.ack_request = false;
  arrive(h);
  EXPECT_EQ(sent_back(), 0u) << "its peer asked for nothing";
  EXPECT_EQ(unknown(), 0u);
}

TEST_F(Late, NothingElseIsAnswered) {
  wire::Headers next = h;
  next.psn = Psn(0xfffff1);  // not executed
  arrive(next);
  wire::Headers read = h;
  read.opcode = wire::raw(wire::Opcode::kRcReadRequest);
  arrive(read);
  wire::Headers ack = h;
  ack.opcode = wire::raw(wire::Opcode::kRcAck);
  arrive(ack);
  wire::Headers other = h;
  other.opcode = wire::raw(wire::Opcode::kUcSendOnly);
  arrive(other);
  EXPECT_EQ(sent_back(), 0u);
  EXPECT_EQ(unknown(), 4u);
}

TEST_F(Late, OnlyItsPeerIsAnsweredAndOnlyForAWhile) {
  arrive(h, {}, {.source = address(9)});
  EXPECT_EQ(unknown(), 1u);
  clock.now += std::chrono::seconds(4);
  arrive(h);
  EXPECT_EQ(unknown(), 2u);
  EXPECT_EQ(sent_back(), 0u);
}

// --- groups

TEST_F(DemuxTest, EveryMemberOnTheNetworkGetsACopy) {
  TestQp& a = make_ud();
  TestQp& b = make_ud();
  TestQp& stranger = make_ud();
  for (TestQp* test : {&a, &b, &stranger}) post_receive(*test, into);
  for (TestQp* test : {&a, &b}) multicast.attach(test->qp, kDemuxGroup);
  const wire::Headers h = datagram_to(kMulticastQpn, kQkey);
  arrive(h, {}, {.destination = kDemuxGroup});
  std::vector<std::uint32_t> copies;
  for (const Completed& done : cq.poll_all()) copies.push_back(done.qpn);
  EXPECT_EQ(copies, (std::vector{a.qp.qpn.value, b.qp.qpn.value}));
  EXPECT_EQ(tenant.counters.wire.rx_multicast.value(), 2u);
  EXPECT_EQ(dropped(), 0u);
}

TEST_F(DemuxTest, AGroupOfNobodyIsCounted) {
  multicast.attach(make_ud().qp, kDemuxGroup);
  const wire::Headers h = datagram_to(kMulticastQpn, kQkey);
  arrive(h, {}, {.destination = Gid::from_ipv4(0xe0000108)});
  EXPECT_EQ(dropped(FrameDrop::kNoGroupMember), 1u);
  tenant.addresses[0].port.reset();
  arrive(h, {}, {.destination = kDemuxGroup});
  EXPECT_EQ(dropped(FrameDrop::kNoGroupMember), 2u) << "its member is on no network";
}

TEST_F(DemuxTest, OnlyDatagramsOfThePartitionAreForGroups) {
  multicast.attach(make_ud().qp, kDemuxGroup);
  wire::Headers h = datagram_to(kMulticastQpn, kQkey);
  h.pkey = 0x8001;
  arrive(h, {}, {.destination = kDemuxGroup});
  EXPECT_EQ(dropped(FrameDrop::kPartitionKey), 1u);
  h.pkey = 0xffff;
  h.opcode = wire::raw(wire::Opcode::kUcSendOnly);
  arrive(h, {}, {.destination = kDemuxGroup});
  EXPECT_EQ(dropped(FrameDrop::kWrongTransport), 1u);
}

TEST_F(DemuxTest, AQkeyIsCheckedByEachMember) {
  TestQp& mine = make_ud();
  TestQp& other = make_ud(kQkey + 1);
  for (TestQp* test : {&mine, &other}) {
    post_receive(*test, into);
    multicast.attach(test->qp, kDemuxGroup);
  }
  arrive(datagram_to(kMulticastQpn, kQkey), {}, {.destination = kDemuxGroup});
  EXPECT_EQ(cq.poll_all().size(), 1u);
  EXPECT_EQ(counted(Count::kBadQkey), 1u);
}

}  // namespace
}  // namespace softhca::engine
