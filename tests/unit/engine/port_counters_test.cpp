// SPDX-License-Identifier: Apache-2.0

// What the port of a tenant's device has counted, and what its peers have asked for.
#include "daemon/counters/device_port.hpp"

#include "daemon/roce/wire/frame.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using transport::Count;

// Ethernet, IPv4, UDP, base transport header, ICRC; what comes on top.
constexpr std::uint64_t kFrame = 14 + 20 + 8 + 12 + 4;
constexpr std::uint64_t kReth = 16, kAeth = 4, kDeth = 8;

management::PmaCounters port_of(const Process& process, const Tenant& tenant) {
  return counters::port_counters_of(tenant, process.adapter.engine.ports());
}
management::PmaCounters port_of(const Process& process) { return port_of(process, process.tenant); }

class Requests : public BothWays {
 protected:
  Requests() : pair(GetParam()) { pair.connect_pair(); }
  void expect_done(const Work& work) {
    pair.a->post(*pair.qa, work);
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  }
  Pair pair;
};

TEST_P(Requests, AreCountedWhereTheyAreExecuted) {
  Buffer& from = pair.a->make_buffer(3000);
  Buffer& to = pair.b->make_buffer(3000);
  for (int i = 0; i < 3; ++i) pair.b->post_receive(*pair.qb, {to.all()});
  const auto with = [&](abi::Opcode opcode, std::size_t bytes) {
    return Work{
        .opcode = opcode, .sge = {from.part(0, bytes)}, .remote_addr = to.addr(), .rkey = to.key};
  };
  expect_done(with(abi::Opcode::kSend, 3000));
  expect_done(with(abi::Opcode::kRdmaWrite, 3000));
  expect_done(with(abi::Opcode::kRdmaWriteWithImm, 0));
  for (int i = 0; i < 3; ++i) expect_done(with(abi::Opcode::kRdmaRead, 3000));
  expect_done(with(abi::Opcode::kFetchAdd, 8));
  const TenantCounters& b = pair.b->tenant.counters;
  EXPECT_EQ(b.value(Count::kWriteRequests), 2u);
  EXPECT_EQ(b.value(Count::kReadRequests), 3u);
  EXPECT_EQ(b.value(Count::kAtomicRequests), 1u);
  for (const Count of : {Count::kWriteRequests, Count::kReadRequests, Count::kAtomicRequests})
    EXPECT_EQ(pair.a->tenant.counters.value(of), 0u) << "it asked";
}
INSTANTIATE_TEST_SUITE_P(Ways, Requests, ::testing::Values(Way::kLocal, Way::kWire), way_name);

TEST(PortCounters, OctetsAreThoseOfWholeFrames) {
  Pair pair{Way::kWire};
  pair.connect_pair({.mtu = 1024});
  Buffer& from = pair.a->make_buffer(3001);
  Buffer& to = pair.b->make_buffer(3001);
  pair.a->post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                          .sge = {from.all()},
                          .remote_addr = to.addr(),
                          .rkey = to.key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const management::PmaCounters a = port_of(*pair.a), b = port_of(*pair.b);
  constexpr std::uint64_t kPad = 3;
  EXPECT_EQ(a.transmitted_packets, 3u);
  EXPECT_EQ(a.transmitted_bytes, 3001 + kPad + 3 * kFrame + kReth);
  EXPECT_EQ(a.received_packets, 1u);
  EXPECT_EQ(a.received_bytes, kFrame + kAeth);
  EXPECT_EQ(b.received_packets, a.transmitted_packets);
  EXPECT_EQ(b.received_bytes, a.transmitted_bytes);
  EXPECT_EQ(b.transmitted_packets, a.received_packets);
  EXPECT_EQ(b.transmitted_bytes, a.received_bytes);
  EXPECT_EQ(a.transmitted_unicast, 3u);
  EXPECT_EQ(b.received_multicast, 0u);
}

TEST(PortCounters, UnicastIsNeverLessThanNothing) {
  Tenant tenant;  // a multicast packet counted between the two reads
  for (Counter* packets : {&tenant.counters.wire.tx_packets, &tenant.counters.wire.rx_packets})
    packets->set(4);
  for (Counter* of : {&tenant.counters.wire.tx_multicast, &tenant.counters.wire.rx_multicast})
    of->set(5);
  const management::PmaCounters read = counters::port_counters_of(tenant, {});
  EXPECT_EQ(read.transmitted_unicast, 0u);
  EXPECT_EQ(read.received_unicast, 0u);
}

TEST(PortCounters, WhatStaysInTheDaemonPassesNoPort) {
  Pair pair{Way::kLocal};
  pair.connect_pair();
  Buffer& from = pair.a->make_buffer(3000);
  Buffer& to = pair.b->make_buffer(3000);
  pair.b->post_receive(*pair.qb, {to.all()});
  pair.a->post(*pair.qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  for (const Process* process : {pair.a.get(), pair.b.get()}) {
    EXPECT_EQ(port_of(*process).transmitted_packets, 0u);
    EXPECT_EQ(port_of(*process).received_packets, 0u);
    EXPECT_EQ(port_of(*process).received_bytes, 0u);
  }
  EXPECT_EQ(pair.a->tenant.counters.local_messages.value(), 1u);
}

TEST(PortCounters, MulticastIsCountedApart) {
  Pair pair{Way::kWire};
  const Gid group = Gid::from_ipv4(0xe0000109);
  TestQp& from = pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  TestQp& to = pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, from, 1);
  bring_up_datagram(*pair.b, to, 1);
  ASSERT_TRUE(pair.b->adapter.engine.multicast().attach(to.qp, group));
  Buffer& data = pair.a->make_buffer(200);
  Buffer& space = pair.b->make_buffer(400);
  pair.b->post_receive(to, {space.all()});
  pair.a->post(from, {.sge = {data.all()},
                      .remote_qpn = kMulticastQpn.value,
                      .remote_qkey = 1,
                      .address_handle = pair.a->make_ah(group)});
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  const management::PmaCounters a = port_of(*pair.a), b = port_of(*pair.b);
  EXPECT_EQ(a.transmitted_multicast, 1u);
  EXPECT_EQ(a.transmitted_unicast, 0u);
  EXPECT_EQ(a.transmitted_bytes, 200 + kFrame + kDeth);
  EXPECT_EQ(b.received_multicast, 1u);
  EXPECT_EQ(b.received_unicast, 0u);
  EXPECT_EQ(b.received_bytes, a.transmitted_bytes);
}

/// Sends a packet to `b` by the end of `a`, its last payload byte damaged on the way if so asked.
void send_by_hand(Pair& pair, bool damaged) {
  const wire::FrameTemplate path({.source = address(1), .destination = address(2)});
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kUdSendOnly);
  h.pkey = 0xffff;
  port::Frame frame = pair.link->allocate();
  ASSERT_TRUE(frame);
  const std::size_t length = path.frame_length(h.opcode, 8);
  wire::FrameBuilder builder({frame.data, length}, path, h, 8, 1);
  std::memset(builder.payload().data(), 0, 8);
  frame.length = static_cast<std::uint32_t>(builder.finish());
  if (damaged) frame.data[length - 5] ^= std::byte{1};
  pair.link->transmit(frame);
  pair.link->flush();
  pair.run_for(std::chrono::microseconds(10));
}

TEST(PortCounters, ErrorsOfAPortAreOfAllWhoHaveAnAddressThere) {
  Pair pair{Way::kWire};
  Adapter& adapter = pair.b->adapter;
  Tenant& neighbour = adapter.add_tenant("c", address(3), PortId(0));
  Tenant& elsewhere = adapter.add_tenant("d", address(4));
  send_by_hand(pair, false);
  EXPECT_EQ(port_of(*pair.b).receive_errors, 0u) << "without a receiver, but no error";
  send_by_hand(pair, true);
  for (const Tenant* tenant : {&pair.b->tenant, &neighbour}) {
    EXPECT_EQ(port_of(*pair.b, *tenant).receive_errors, 1u);
    EXPECT_EQ(port_of(*pair.b, *tenant).bad_icrc, 1u);
    EXPECT_EQ(port_of(*pair.b, *tenant).received_packets, 0u);
  }
  EXPECT_EQ(port_of(*pair.b, elsewhere).receive_errors, 0u);
}

TEST(PortCounters, PacketsToNowhereAreDiscardsOfWhoSentThem) {
  Pair pair{Way::kWire};
  Tenant& neighbour = pair.a->adapter.add_tenant("c", address(3), PortId(0));
  TestQp& qp = pair.a->make_qp(*pair.ca, *pair.ca);
  bring_up(*pair.a, qp, Qpn(5), address(99), {.retry_count = 0});
  Buffer& from = pair.a->make_buffer(8);
  pair.a->post(qp, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  EXPECT_GT(port_of(*pair.a).transmit_discards, 0u);
  EXPECT_EQ(port_of(*pair.a).transmitted_packets, 0u);
  EXPECT_EQ(port_of(*pair.a, neighbour).transmit_discards, 0u);
}

}  // namespace
}  // namespace softhca::engine
