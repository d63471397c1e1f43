// SPDX-License-Identifier: Apache-2.0

// Reliable connections that work: every operation, both ways.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class Rc : public BothWays {
 protected:
  Rc() : pair(GetParam()) { pair.connect_pair(); }
  ~Rc() { pair.expect_idle(); }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(Rc, SendFillsTheOldestReceive) {
  Buffer& from = a.make_buffer(3000);
  Buffer& to = b.make_buffer(3000);
  Buffer& later = b.make_buffer(3000);
  from.fill(1);
  b.post_receive(*pair.qb, {to.all()});
  b.post_receive(*pair.qb, {later.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, Status::kSuccess);
  EXPECT_EQ(received->opcode, abi::CompletionOpcode::kReceive);
  EXPECT_EQ(received->index, 0u);
  EXPECT_EQ(received->byte_len, 3000u);
  EXPECT_EQ(received->qpn, pair.qb->qp.qpn.value);
  EXPECT_TRUE(received->is_receive);
  EXPECT_EQ(received->flags, 0);
  EXPECT_TRUE(from.equals(to));
  EXPECT_TRUE(later.is_zero());
  const auto sent = pair.wait(*pair.ca);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->status, Status::kSuccess);
  EXPECT_EQ(sent->opcode, abi::CompletionOpcode::kSend);
  EXPECT_FALSE(sent->is_receive);
}

TEST_P(Rc, SendCarriesImmediateData) {
  Buffer& from = a.make_buffer(10);
  Buffer& to = b.make_buffer(10);
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.opcode = abi::Opcode::kSendWithImm, .sge = {from.all()}, .imm = 0xdeadbeef});
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->flags, abi::kCompletionWithImm);
  EXPECT_EQ(received->imm, 0xdeadbeefu);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, InlineDataIsTakenFromTheCommand) {
  Buffer& to = b.make_buffer(256);
  b.post_receive(*pair.qb, {to.all()});
  std::vector<std::byte> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  a.post(*pair.qa, {.flags = abi::kCommandSignaled | abi::kCommandInline, .bytes = bytes});
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->byte_len, 256u);
  EXPECT_EQ(std::memcmp(to.data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, MessagesOfNoBytes) {
  b.post_receive(*pair.qb, {});
  a.post(*pair.qa, {});
  EXPECT_EQ(pair.wait(*pair.cb).value().byte_len, 0u);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  // A write and a read of nothing need no valid key (IBA 9.7.4.1.5).
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite, .remote_addr = 77, .rkey = 4711});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaRead, .remote_addr = 77, .rkey = 4711});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, ScatterGatherListsOfDifferentCuts) {
  Buffer& from = a.make_buffer(4000);
  Buffer& to = b.make_buffer(4000);
  Buffer& expected = b.make_buffer(4000);
  from.fill(7);
  b.post_receive(*pair.qb, {to.part(0, 1500), to.part(1500, 0), to.part(1500, 2500)});
  a.post(*pair.qa, {.sge = {from.part(2000, 2000), from.part(0, 1), from.part(1, 1999)}});
  EXPECT_EQ(pair.wait(*pair.cb).value().byte_len, 4000u);
  std::memcpy(expected.data(), from.data() + 2000, 2000);
  std::memcpy(expected.data() + 2000, from.data(), 2000);
  EXPECT_TRUE(to.equals(expected));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, WriteAndReadOfMoreThanOneTurn) {
  constexpr std::size_t kBytes = 1 << 20;
  Buffer& near = a.make_buffer(kBytes);
  Buffer& far = b.make_buffer(kBytes);
  near.fill(3);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  const auto written = pair.wait(*pair.ca);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->status, Status::kSuccess);
  EXPECT_EQ(written->opcode, abi::CompletionOpcode::kRdmaWrite);
  EXPECT_TRUE(near.equals(far));

  far.fill(9);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaRead,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  const auto read = pair.wait(*pair.ca);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->opcode, abi::CompletionOpcode::kRdmaRead);
  EXPECT_EQ(read->byte_len, kBytes);
  EXPECT_TRUE(near.equals(far));
  EXPECT_TRUE(pair.cb->poll_all().empty());
}

TEST_P(Rc, WriteWithImmediateTakesAReceive) {
  Buffer& near = a.make_buffer(2000);
  Buffer& far = b.make_buffer(2000);
  near.fill(4);
  b.post_receive(*pair.qb, {});
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWriteWithImm,
                    .sge = {near.all()},
                    .imm = 42,
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  const auto received = pair.wait(*pair.cb);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->opcode, abi::CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_EQ(received->imm, 42u);
  EXPECT_EQ(received->byte_len, 2000u);
  EXPECT_TRUE(near.equals(far));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, Atomics) {
  Buffer& result = a.make_buffer(8);
  Buffer& counter = b.make_buffer(16);
  counter.words[1] = 40;
  Work add{.opcode = abi::Opcode::kFetchAdd,
           .sge = {result.all()},
           .remote_addr = counter.addr() + 8,
           .rkey = counter.key,
           .compare_add = 2};
  a.post(*pair.qa, add);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(result.words[0], 40u);
  EXPECT_EQ(counter.words[1], 42u);

  Work swap = add;
  swap.opcode = abi::Opcode::kCompareSwap;
  swap.compare_add = 42;
  swap.swap = 7;
  a.post(*pair.qa, swap);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(result.words[0], 42u);
  EXPECT_EQ(counter.words[1], 7u);

  a.post(*pair.qa, swap);  // 7 is not 42: nothing changes
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(result.words[0], 7u);
  EXPECT_EQ(counter.words[1], 7u);
  EXPECT_EQ(counter.words[0], 0u);
}

/// An atomic behind so many bytes that only part of a turn is left must not run twice.
TEST_P(Rc, AtomicAtTheEndOfATurnRunsOnce) {
  Buffer& near = a.make_buffer((128 << 10) - 3);
  Buffer& far = b.make_buffer((128 << 10) - 3);
  Buffer& result = a.make_buffer(8);
  Buffer& counter = b.make_buffer(8);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  a.post(*pair.qa, {.opcode = abi::Opcode::kFetchAdd,
                    .sge = {result.all()},
                    .remote_addr = counter.addr(),
                    .rkey = counter.key,
                    .compare_add = 1});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(counter.words[0], 1u);
}

TEST_P(Rc, UnsignaledWorkCompletesSilently) {
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work write{.opcode = abi::Opcode::kRdmaWrite,
             .flags = 0,
             .sge = {near.all()},
             .remote_addr = far.addr(),
             .rkey = far.key};
  a.post(*pair.qa, write);
  a.post(*pair.qa, write);
  write.flags = abi::kCommandSignaled;
  a.post(*pair.qa, write);
  EXPECT_EQ(pair.wait(*pair.ca).value().index, 2u);
  EXPECT_TRUE(pair.ca->poll_all().empty());
}

TEST_P(Rc, SignalAllSignalsAll) {
  TestQp& qa = a.make_qp(*pair.ca, *pair.ca, {.signal_all = true});
  TestQp& qb = b.make_qp(*pair.cb, *pair.cb);
  connect(a, qa, b, qb);
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  a.post(qa, {.opcode = abi::Opcode::kRdmaWrite,
              .flags = 0,
              .sge = {near.all()},
              .remote_addr = far.addr(),
              .rkey = far.key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(Rc, SolicitedEventsOnlyForThoseAskedFor) {
  TestCq& cq = b.make_cq(64, 33);
  TestQp& qa = a.make_qp(*pair.ca, *pair.ca);
  TestQp& qb = b.make_qp(*pair.cb, cq);
  connect(a, qa, b, qb);
  for (int i = 0; i < 2; ++i) b.post_receive(qb, {});
  cq.arm(abi::kArmSolicited);
  a.post(qa, {});
  EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
  EXPECT_TRUE(pair.sink_of(b).completions.empty());
  a.post(qa, {.flags = abi::kCommandSignaled | abi::kCommandSolicited});
  EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
  pair.steps(2);
  ASSERT_EQ(pair.sink_of(b).completions.size(), 1u);
  EXPECT_EQ(pair.sink_of(b).completions[0], std::make_pair(33, cq.cq.user_handle));
  pair.run_until([&] { return pair.qa->qp.sq.commands + qa.qp.sq.commands == 0; });
}

TEST_P(Rc, FirstRequestInRtrEstablishes) {
  TestQp& qa = a.make_qp(*pair.ca, *pair.ca);
  TestQp& qb = b.make_qp(*pair.cb, *pair.cb);
  bring_up(a, qa, qb.qp.qpn, b.tenant.addresses[0].gid);
  bring_up(b, qb, qa.qp.qpn, a.tenant.addresses[0].gid, {}, false);
  for (int i = 0; i < 2; ++i) b.post_receive(qb, {});
  for (int i = 0; i < 2; ++i) {
    a.post(qa, {});
    EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  }
  EXPECT_EQ(pair.sink_of(b).count(EventType::kCommunicationEstablished, qb.qp.user_handle), 1u);
}

INSTANTIATE_TEST_SUITE_P(Engine, Rc, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// Both ends in one queue pair: a message to itself.
TEST(RcToItself, Works) {
  Pair pair(Way::kLocal);
  TestQp& qp = pair.a->make_qp(*pair.ca, *pair.ca);
  bring_up(*pair.a, qp, qp.qp.qpn, address(1));
  Buffer& from = pair.a->make_buffer(100);
  Buffer& to = pair.a->make_buffer(100);
  from.fill(5);
  pair.a->post_receive(qp, {to.all()});
  pair.a->post(qp, {.sge = {from.all()}});
  EXPECT_TRUE(pair.wait(*pair.ca).value().is_receive);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(from.equals(to));
  pair.expect_idle();
}

}  // namespace
}  // namespace softhca::engine
