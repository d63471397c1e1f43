// SPDX-License-Identifier: Apache-2.0

// Unreliable queue pairs: datagrams and unreliable connections.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::size_t kGrh = transport::kRoutingHeaderBytes;

class Ud : public BothWays {
 protected:
  Ud() : pair(GetParam()) {
    qa = &a.make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
    qb = &b.make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
    bring_up_datagram(a, *qa, kQkey);
    bring_up_datagram(b, *qb, kQkey);
    ah = a.make_ah(address(2));
    from = &a.make_buffer(2000);
    to = &b.make_buffer(2000);
    from->fill(1);
  }
  ~Ud() { pair.expect_idle(); }

  Work datagram(std::size_t bytes) {
    return {.sge = {from->part(0, bytes)},
            .remote_qpn = qb->qp.qpn.value,
            .remote_qkey = kQkey,
            .address_handle = ah};
  }
  std::uint64_t counted(Process& process, transport::Count count) {
    return process.tenant.counters.transport[static_cast<std::size_t>(count)].value();
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  TestQp* qa;
  TestQp* qb;
  std::uint32_t ah;
  Buffer* from;
  Buffer* to;
};

TEST_P(Ud, DatagramBringsItsRoutingHeader) {
  b.post_receive(*qb, {to->part(0, 300)});
  Work work = datagram(200);
  work.opcode = abi::Opcode::kSendWithImm;
  work.imm = 99;
  a.post(*qa, work);
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, Status::kSuccess);
  EXPECT_EQ(received->byte_len, 200 + kGrh);
  EXPECT_EQ(received->source, qa->qp.qpn.value);
  EXPECT_EQ(received->imm, 99u);
  EXPECT_EQ(received->flags, abi::kCompletionGrh | abi::kCompletionIpv4 | abi::kCompletionWithImm);
  EXPECT_EQ(std::memcmp(to->data() + kGrh, from->data(), 200), 0);
  // The IPv4 header stands in the last 20 bytes of the area (annex A17.4.5.2).
  EXPECT_EQ(to->data()[20], std::byte{0x45});
  const std::uint8_t addresses[] = {10, 0, 0, 1, 10, 0, 0, 2};
  EXPECT_EQ(std::memcmp(to->data() + 32, addresses, sizeof addresses), 0);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Ud, QkeyOfTheWrongKind) {
  b.post_receive(*qb, {to->all()});
  Work work = datagram(8);
  work.remote_qkey = kQkey + 1;
  a.post(*qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(pair.run_until([&] { return counted(b, transport::Count::kBadQkey) == 1; }));
  work.remote_qkey = 0x80000000;  // stands for the queue pair's own
  a.post(*qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
}

TEST_P(Ud, WithoutReceiveItIsDropped) {
  a.post(*qa, datagram(8));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(pair.run_until([&] { return counted(b, transport::Count::kReceiveDropped) == 1; }));
  EXPECT_EQ(qb->qp.state, QpState::kRts);
}

TEST_P(Ud, TooLongForTheReceiveLeavesItToTheNext) {
  b.post_receive(*qb, {to->part(0, 100 + kGrh)});
  a.post(*qa, datagram(101));
  a.post(*qa, datagram(100));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->byte_len, 100 + kGrh);
  EXPECT_EQ(received->index, 0u);
}

TEST_P(Ud, LongerThanTheMtuFails) {
  a.post(*qa, datagram(1025));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalLengthError);
  EXPECT_EQ(qa->qp.state, QpState::kError);
}

TEST_P(Ud, AddressHandleOfNobody) {
  Work work = datagram(8);
  work.address_handle = 0xffffffff;
  a.post(*qa, work);
  a.post(*qa, datagram(8));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
}

TEST_P(Ud, AddressHandleOfAnotherProcess) {
  Process other(a.adapter, a.tenant);
  Work work = datagram(8);
  work.address_handle = other.make_ah(address(2));
  a.post(*qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
}

/// What was posted with a handle that has been destroyed since does not go by one made later.
TEST_P(Ud, ANewAddressHandleIsNoneOfBefore) {
  Engine& engine = a.adapter.engine;
  AddressHandle first = *engine.address_handles().find(ah);
  AddressHandle later = first;
  const std::uint32_t handle = engine.address_handles().add(first);
  Work work = datagram(8);
  work.address_handle = handle;
  a.post(*qa, work);  // not taken in yet
  engine.address_handles().remove(handle);
  b.post_receive(*qb, {to->all()});
  std::uint32_t made = 0;
  for (int i = 0; i < 5000; ++i) {
    made = engine.address_handles().add(later);
    ASSERT_NE(made, handle);
    if (i + 1 < 5000) engine.address_handles().remove(made);
  }
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(pair.cb->poll_all().empty());
  engine.address_handles().remove(made);
}

TEST_P(Ud, DrainsInSqd) {
  // On the wire no host has this address: the datagram waits for a while.
  Work work = datagram(8);
  work.address_handle = a.make_ah(address(9));
  for (int i = 0; i < 3; ++i) a.post(*qa, work);
  pair.step();
  a.adapter.engine.queue_pairs().enter_drain(qa->qp, true);
  pair.run_for(std::chrono::seconds(1));
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, qa->qp.user_handle), 1u);
  a.adapter.engine.queue_pairs().enter_ready_to_send(qa->qp, Psn());
  EXPECT_TRUE(pair.run_until([&] { return qa->qp.sq.commands == 0; }));
  EXPECT_EQ(pair.ca->poll_all().size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Engine, Ud, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// The queue pair of a number is reached only by the addresses of its tenant.
TEST(UdIsolation, AddressOfAnotherTenant) {
  Pair pair(Way::kLocal);
  pair.adapters[0]->add_tenant("c", address(3));
  TestQp& qa = pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  TestQp& qb = pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, qa, kQkey);
  bring_up_datagram(*pair.b, qb, kQkey);
  pair.b->post_receive(qb, {pair.b->make_buffer(100).all()});
  pair.a->post(qa, {.remote_qpn = qb.qp.qpn.value,
                    .remote_qkey = kQkey,
                    .address_handle = pair.a->make_ah(address(3))});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.steps(10);
  EXPECT_TRUE(pair.cb->poll_all().empty());
}

/// A receive that a frame of the wire did not fit serves a local datagram, once, and the other way.
TEST(UdMixed, ReceiveLeftOverServesBothWays) {
  Pair pair(Way::kWire);
  Process neighbour(pair.b->adapter, pair.b->adapter.add_tenant("c", address(3), PortId(0)));
  TestCq& cc = neighbour.make_cq();
  TestQp& qa = pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  TestQp& qb = pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
  TestQp& qc = neighbour.make_qp(cc, cc, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, qa, kQkey);
  bring_up_datagram(*pair.b, qb, kQkey);
  bring_up_datagram(neighbour, qc, kQkey);
  Buffer& to = pair.b->make_buffer(400);
  Buffer& far = pair.a->make_buffer(200);
  Buffer& near = neighbour.make_buffer(200);
  const auto work = [&](Process& p, Buffer& b, std::size_t bytes) {
    return Work{.sge = {b.part(0, bytes)},
                .remote_qpn = qb.qp.qpn.value,
                .remote_qkey = kQkey,
                .address_handle = p.make_ah(address(2))};
  };
  for (const std::size_t room : {50, 200, 50, 200})
    pair.b->post_receive(qb, {to.part(0, kGrh + room)});
  const auto wire = [&](std::size_t bytes) {
    pair.a->post(qa, work(*pair.a, far, bytes));
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    pair.run_for(std::chrono::microseconds(50));
  };
  const auto inside = [&](std::size_t bytes) {
    neighbour.post(qc, work(neighbour, near, bytes));
    EXPECT_EQ(pair.wait_status(cc), Status::kSuccess);
  };
  wire(100);    // does not fit the first
  inside(50);   // takes it
  wire(200);    // takes the second
  inside(100);  // does not fit the third
  wire(50);     // takes it
  inside(200);  // takes the fourth
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint32_t> indices;
  for (const Completed& c : pair.cb->poll_all()) {
    lengths.push_back(c.byte_len - static_cast<std::uint32_t>(kGrh));
    indices.push_back(c.index);
  }
  EXPECT_EQ(lengths, (std::vector<std::uint32_t>{50, 200, 50, 200}));
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

class Uc : public BothWays {
 protected:
  Uc() : pair(GetParam()) { pair.connect_pair({}, {.type = QpType::kUc}); }
  ~Uc() { pair.expect_idle(); }
  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(Uc, SendsAndWrites) {
  Buffer& from = a.make_buffer(5000);
  Buffer& to = b.make_buffer(5000);
  from.fill(1);
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait(*pair.cb).value().byte_len, 5000u);
  EXPECT_TRUE(from.equals(to));
  from.fill(2);
  b.post_receive(*pair.qb, {});
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWriteWithImm,
                    .sge = {from.all()},
                    .remote_addr = to.addr(),
                    .rkey = to.key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait(*pair.cb).value().opcode, abi::CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_TRUE(from.equals(to));
}

TEST_P(Uc, WhatCannotBeReceivedIsDroppedSilently) {
  Buffer& from = a.make_buffer(3000);
  Buffer& to = b.make_buffer(3000);
  a.post(*pair.qa, {.sge = {from.all()}});  // no receive
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.run_for(std::chrono::microseconds(50));
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite, .sge = {from.all()}, .rkey = 4711});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  b.post_receive(*pair.qb, {to.part(0, 100)});
  a.post(*pair.qa, {.sge = {from.all()}});  // too long
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  a.post(*pair.qa, {.sge = {from.part(0, 100)}});
  EXPECT_EQ(pair.wait(*pair.cb).value().byte_len, 100u);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.qa->qp.state, QpState::kRts);
  EXPECT_EQ(pair.qb->qp.state, QpState::kRts);
}

TEST_P(Uc, KnowsNoReads) {
  Buffer& near = a.make_buffer(8);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaRead, .sge = {near.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
}

TEST_P(Uc, PeerThatIsNotThere) {
  b.destroy(*pair.qb);
  a.post(*pair.qa, {.sge = {a.make_buffer(3000).all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Engine, Uc, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
