// SPDX-License-Identifier: Apache-2.0

// Connections that fail: waits, retries, refusals, flushing.
#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

// More than one poll step moves.
constexpr std::size_t kLong = 16 << 20;

class RcErrors : public BothWays {
 protected:
  RcErrors() : pair(GetParam()) {}
  ~RcErrors() { pair.expect_idle(); }

  /// An RDMA write of `near` to `far` at `offset`.
  static Work write(Buffer& near, Buffer& far, std::uint64_t offset = 0) {
    return {.opcode = abi::Opcode::kRdmaWrite,
            .sge = {near.all()},
            .remote_addr = far.addr() + offset,
            .rkey = far.key};
  }
  /// Both ends are in the error state, with `event` at the peer.
  void expect_refused(EventType event) {
    EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.state == QpState::kError; }));
    EXPECT_EQ(pair.qa->qp.state, QpState::kError);
    EXPECT_EQ(pair.sink_of(b).count(event, pair.qb->qp.user_handle), 1u);
    EXPECT_EQ(pair.sink_of(a).count(event, pair.qa->qp.user_handle), 0u);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(RcErrors, WaitsForAReceiveForEver) {
  pair.connect_pair({.rnr_retry = 7});
  Buffer& from = a.make_buffer(100);
  Buffer& to = b.make_buffer(100);
  from.fill(1);
  a.post(*pair.qa, {.sge = {from.all()}});
  pair.run_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(pair.ca->poll_all().empty());
  EXPECT_EQ(pair.qa->qp.state, QpState::kRts);
  b.post_receive(*pair.qb, {to.all()});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  EXPECT_TRUE(from.equals(to));
}

TEST_P(RcErrors, GivesUpAfterSoManyRnrRetries) {
  // Timer code 1 is 10 us: three waits are over well before a millisecond.
  pair.connect_pair({.rnr_retry = 2, .min_rnr_timer = 1});
  a.post(*pair.qa, {});
  const Time begun = pair.now;
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRnrRetryExceededError);
  EXPECT_GE(pair.now - begun, std::chrono::microseconds(20));
  const auto count = static_cast<std::size_t>(transport::Count::kRnrNakReceived);
  EXPECT_EQ(a.tenant.counters.transport[count].value(), 3u);
  EXPECT_EQ(pair.qa->qp.record.retries.rnr_naks, 3u);
  EXPECT_EQ(pair.qb->qp.record.retries.rnr_naks, 0u);
  EXPECT_EQ(pair.qa->qp.state, QpState::kError);
  EXPECT_EQ(pair.qb->qp.state, QpState::kRts);
}

TEST_P(RcErrors, WhatIsSentAgainIsCountedForItsQueuePair) {
  if (local()) GTEST_SKIP() << "nothing is sent between queue pairs of one daemon";
  pair.connect_pair({.timeout = 8, .retry_count = 7});
  TestQp& lossy = *pair.qa;
  pair.connect_pair({.timeout = 8, .retry_count = 7});
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  const Work work{.opcode = abi::Opcode::kRdmaWrite,
                  .sge = {near.all()},
                  .remote_addr = far.addr(),
                  .rkey = far.key};
  a.post(lossy, work);  // finds the neighbour
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.link->set_link(false);
  a.post(lossy, work);
  pair.steps(5);
  pair.link->set_link(true);
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const auto count = static_cast<std::size_t>(transport::Count::kRetransmittedPackets);
  EXPECT_GT(lossy.qp.record.retries.packets, 0u);
  EXPECT_GT(lossy.qp.record.retries.timeouts + lossy.qp.record.retries.early, 0u);
  EXPECT_EQ(lossy.qp.record.retries.packets, a.tenant.counters.transport[count].value());
  EXPECT_EQ(pair.qa->qp.record.retries.packets, 0u);
}

TEST_P(RcErrors, PeerThatIsNotThereExhaustsRetries) {
  pair.connect_pair({.timeout = 8, .retry_count = 2});
  pair.b->destroy(*pair.qb);
  Buffer& near = a.make_buffer(8);
  for (int i = 0; i < 3; ++i) a.post(*pair.qa, {.sge = {near.all()}});
  const Time begun = pair.now;
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  // 4.096 us * 2^8, three times.
  EXPECT_GE(pair.now - begun, std::chrono::microseconds(3140));
  EXPECT_LT(pair.now - begun, std::chrono::microseconds(20000));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
}

TEST_P(RcErrors, KeyThatNobodyHas) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work work = write(near, far);
  work.rkey ^= 0x10000;
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);
  EXPECT_TRUE(far.is_zero());
}

TEST_P(RcErrors, BeyondTheEndOfARegion) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(4096);
  near.fill(1);
  a.post(*pair.qa, write(near, far, 4089));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);
  EXPECT_TRUE(far.is_zero());
}

TEST_P(RcErrors, AddressThatWrapsAround) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(64);
  Work work = write(near, far);
  work.remote_addr = ~std::uint64_t{0} - 7;
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);
}

TEST_P(RcErrors, RightsOfRegionAndQueuePairBothCount) {
  pair.connect_pair({.access = memory::kLocalWrite | memory::kRemoteWrite});
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work read = write(near, far);
  read.opcode = abi::Opcode::kRdmaRead;
  a.post(*pair.qa, read);  // the region allows it, the queue pair does not
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);

  pair.connect_pair();
  Buffer& closed = b.make_buffer(8, memory::kLocalWrite | memory::kRemoteRead);
  a.post(*pair.qa, write(near, closed));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);
}

TEST_P(RcErrors, RegionOfAnotherDomain) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  const memory::PdId own = b.pd;
  b.pd = memory::PdId(own.value + 1000);
  Buffer& far = b.make_buffer(8);
  b.pd = own;
  a.post(*pair.qa, write(near, far));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);
}

TEST_P(RcErrors, AtomicOnAnOddAddress) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(16);
  Work add = write(near, far, 4);
  add.opcode = abi::Opcode::kFetchAdd;
  a.post(*pair.qa, add);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteInvalidRequestError);
  expect_refused(EventType::kQpRequestError);
}

TEST_P(RcErrors, ReadsThatTheRequesterMayNotSend) {
  pair.connect_pair();
  pair.qa->qp.rc.max_rd_atomic = 0;
  a.adapter.engine.queue_pairs().apply_attributes(pair.qa->qp);
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work work = write(near, far);
  work.opcode = abi::Opcode::kRdmaRead;
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
}

TEST_P(RcErrors, ReadsThatTheResponderDoesNotRemember) {
  pair.connect_pair();
  pair.qb->qp.rc.max_dest_rd_atomic = 0;
  b.adapter.engine.queue_pairs().apply_attributes(pair.qb->qp);
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work work = write(near, far);
  work.opcode = abi::Opcode::kRdmaRead;
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteInvalidRequestError);
}

TEST_P(RcErrors, MessageLongerThanTheReceive) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(5000);
  Buffer& to = b.make_buffer(5000);
  b.post_receive(*pair.qb, {to.part(0, 4999)});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteInvalidRequestError);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kLocalLengthError);
  expect_refused(EventType::kQpRequestError);
  EXPECT_TRUE(pair.cb->poll_all().empty());
}

/// The receive's own memory is at fault: its consumer learns the cause, the sender that it failed.
TEST_P(RcErrors, ReceiveIntoMemoryThatIsNotRegistered) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(100);
  Buffer& to = b.make_buffer(100);
  abi::ScatterGather entry = to.all();
  entry.lkey ^= 0x10000;
  b.post_receive(*pair.qb, {entry});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kLocalProtectionError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteOperationError);
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.state == QpState::kError; }));
  EXPECT_TRUE(pair.cb->poll_all().empty());
}

TEST_P(RcErrors, LocalMemoryThatIsNotRegistered) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  Work good = write(near, far);
  Work bad = good;
  bad.sge[0].lkey ^= 0x10000;
  for (const Work& work : {good, bad, good}) a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalProtectionError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
  EXPECT_EQ(pair.qb->qp.state, QpState::kRts);
}

/// The second of two bad commands is flushed, not blamed for itself.
TEST_P(RcErrors, OnlyTheFirstBadCommandIsBlamed) {
  pair.connect_pair();
  for (int i = 0; i < 3; ++i) a.post(*pair.qa, {.opcode = static_cast<abi::Opcode>(11)});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
}

TEST_P(RcErrors, RemoteInvalidationOfARegionIsRefused) {
  pair.connect_pair();
  Buffer& to = b.make_buffer(8);
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.opcode = abi::Opcode::kSendWithInvalidate, .rkey = to.key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  EXPECT_NE(pair.wait_status(*pair.cb), Status::kSuccess);
  expect_refused(EventType::kQpAccessError);
}

TEST_P(RcErrors, ErrorFlushesWhatIsPostedAndWhatIsPostedLater) {
  pair.connect_pair({.timeout = 0});
  Buffer& buffer = a.make_buffer(8);
  for (int i = 0; i < 3; ++i) a.post_receive(*pair.qa, {buffer.all()});
  for (int i = 0; i < 2; ++i) a.post(*pair.qa, {.sge = {buffer.all()}});
  pair.steps(5);  // they wait for a receive
  a.adapter.engine.queue_pairs().enter_error(pair.qa->qp);
  pair.steps(2);
  const auto flushed = pair.ca->poll_all();
  ASSERT_EQ(flushed.size(), 5u);
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  for (const Completed& c : flushed) {
    EXPECT_EQ(c.status, Status::kFlushError);
    EXPECT_EQ(c.index, c.is_receive ? receives++ : sends++) << "out of order";
  }
  a.post_receive(*pair.qa, {buffer.all()});
  auto later = pair.wait(*pair.ca);
  ASSERT_TRUE(later);
  EXPECT_TRUE(later->is_receive);
  EXPECT_EQ(later->index, 3u);
  EXPECT_EQ(later->status, Status::kFlushError);
  a.post(*pair.qa, {.flags = 0, .sge = {buffer.all()}}, Process::Way::kDoorbell);
  later = pair.wait(*pair.ca);
  ASSERT_TRUE(later);
  EXPECT_FALSE(later->is_receive);
  EXPECT_EQ(later->index, 2u);
  EXPECT_EQ(later->status, Status::kFlushError);
}

/// However many receives wait to be flushed, and however fast new ones come: others have their
/// turns.
TEST_P(RcErrors, FlushingTakesTurns) {
  pair.connect_pair();
  TestQp& failed = a.make_qp(*pair.ca, a.make_cq(4096), {.receive_entries = 2048});
  bring_up(a, failed, pair.qb->qp.qpn, address(2));
  Buffer& buffer = a.make_buffer(8);
  for (int i = 0; i < 2048; ++i) a.post_receive(failed, {buffer.all()});
  a.adapter.engine.queue_pairs().enter_error(failed.qp);
  pair.step();
  const std::uint32_t left = failed.qp.rq.ring.available().value_or(0);
  EXPECT_GT(left, 0u) << "all in one step";
  EXPECT_LT(left, 2048u);
  EXPECT_TRUE(pair.run_until([&] { return failed.qp.rq.ring.available().value_or(1) == 0; }));
}

TEST_P(RcErrors, ResetForgetsEverythingAndTheQueuePairWorksAgain) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(8);
  Buffer& to = b.make_buffer(8);
  for (int i = 0; i < 5; ++i) a.post(*pair.qa, {.sge = {from.all()}});
  a.post_receive(*pair.qa, {from.all()});
  pair.steps(3);
  a.reset(*pair.qa);
  b.reset(*pair.qb);
  pair.expect_idle();
  pair.run_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(pair.ca->poll_all().empty());
  connect(a, *pair.qa, b, *pair.qb);
  from.fill(2);
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(from.equals(to));
}

/// What the engine has not taken in when the queue pair goes to RESET waits in VCBs and doorbells,
/// and is taken in when the queue pair is in use again. It must not run on the new connection.
TEST_P(RcErrors, WhatWasPostedBeforeResetIsVoid) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(8);
  Buffer& to = b.make_buffer(8);
  for (const auto way : {Process::Way::kVcb, Process::Way::kDoorbell}) {
    from.fill(1);
    for (int i = 0; i < 2; ++i) a.post(*pair.qa, write(from, to), way);
    a.reset(*pair.qa);
    b.reset(*pair.qb);
    connect(a, *pair.qa, b, *pair.qb);
    pair.run_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(to.is_zero());
    EXPECT_TRUE(pair.ca->poll_all().empty());

    from.fill(2);
    a.post(*pair.qa, write(from, to), way);
    const auto done = pair.wait(*pair.ca);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, Status::kSuccess);
    EXPECT_EQ(done->index, pair.qa->sequence - 1);
    EXPECT_TRUE(from.equals(to));
    std::fill(to.words.begin(), to.words.end(), 0);
    pair.expect_idle();
  }
}

/// Also where the queue pair failed before it could send.
TEST_P(RcErrors, WhatWasPostedBeforeResetIsNotFlushedLater) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(8);
  for (int i = 0; i < 3; ++i) a.post(*pair.qa, {.sge = {from.all()}});
  a.reset(*pair.qa);
  pair.qa->qp.state = QpState::kInit;
  a.adapter.engine.queue_pairs().enter_error(pair.qa->qp);
  a.post(*pair.qa, {.sge = {from.all()}});
  pair.run_for(std::chrono::milliseconds(1));
  const auto flushed = pair.ca->poll_all();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].status, Status::kFlushError);
  EXPECT_EQ(flushed[0].index, 3u);
}

/// Reset in the middle of a message: the peer's receive is neither lost nor completed twice.
TEST_P(RcErrors, SenderResetInTheMiddleOfAMessage) {
  pair.connect_pair();
  Buffer& from = a.make_buffer(kLong);
  Buffer& to = b.make_buffer(kLong);
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.rq.drawn; }));
  a.reset(*pair.qa);
  bring_up(a, *pair.qa, pair.qb->qp.qpn, address(2));
  b.adapter.engine.queue_pairs().enter_error(pair.qb->qp);
  const auto flushed = pair.cb->poll_all();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].status, Status::kFlushError);
  EXPECT_EQ(flushed[0].index, 0u);
}

TEST_P(RcErrors, DeregistrationInFlight) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(kLong);
  Buffer& far = b.make_buffer(kLong);
  a.post(*pair.qa, write(near, far));
  pair.steps(2);
  EXPECT_TRUE(b.adapter.engine.keys().erase(far.key));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  expect_refused(EventType::kQpAccessError);

  pair.connect_pair();
  Buffer& other = b.make_buffer(kLong);
  a.post(*pair.qa, write(near, other));
  pair.steps(2);
  EXPECT_TRUE(a.adapter.engine.keys().erase(near.key));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalProtectionError);
  EXPECT_EQ(pair.qa->qp.state, QpState::kError);
}

TEST_P(RcErrors, SqdFinishesWhatHasBegunAndHoldsTheRest) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(8);
  const std::uint64_t handle = pair.qa->qp.user_handle;
  a.post(*pair.qa, {.sge = {near.all()}});  // waits for a receive
  pair.steps(5);
  a.adapter.engine.queue_pairs().enter_drain(pair.qa->qp, true);
  a.post(*pair.qa, write(near, far));
  pair.run_for(std::chrono::microseconds(200));
  EXPECT_TRUE(pair.ca->poll_all().empty());
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, handle), 0u);
  b.post_receive(*pair.qb, {far.all()});
  EXPECT_EQ(pair.wait(*pair.ca).value().index, 0u);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, handle), 1u);
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(pair.ca->poll_all().empty());
  a.adapter.engine.queue_pairs().enter_ready_to_send(pair.qa->qp, Psn());
  EXPECT_EQ(pair.wait(*pair.ca).value().index, 1u);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
}

TEST_P(RcErrors, LastWqeEventOfASharedReceiveQueue) {
  pair.srq = &b.make_srq();
  pair.connect_pair();
  Buffer& to = b.make_buffer(kLong);
  Buffer& from = a.make_buffer(kLong);
  pair.srq->ring.post(7, {to.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.rq.drawn; }));
  b.adapter.engine.queue_pairs().enter_error(pair.qb->qp);
  b.adapter.engine.queue_pairs().enter_error(pair.qb->qp);
  EXPECT_EQ(pair.sink_of(b).count(EventType::kQpLastWqeReached, pair.qb->qp.user_handle), 1u);
  const auto flushed = pair.cb->poll_all();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].index, 7u);
  EXPECT_EQ(flushed[0].status, Status::kFlushError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
}

TEST_P(RcErrors, CompletionQueueOverflow) {
  pair.connect_pair({}, {.send_entries = 32});
  TestCq& small = a.make_cq(4);
  TestQp& qa = a.make_qp(small, small);
  TestQp& idle = a.make_qp(*pair.ca, small);
  TestQp& qb = b.make_qp(*pair.cb, *pair.cb);
  connect(a, qa, b, qb);
  bring_up(a, idle, Qpn(77), address(2));
  for (int i = 0; i < 6; ++i) a.post(qa, {.opcode = abi::Opcode::kRdmaWrite});
  EXPECT_TRUE(pair.run_until([&] { return small.cq.failed; }));
  pair.steps(3);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kCqError, small.cq.user_handle), 1u);
  EXPECT_EQ(a.tenant.counters.completion.cq_overflows.value(), 1u);
  EXPECT_EQ(qa.qp.state, QpState::kError);
  EXPECT_EQ(idle.qp.state, QpState::kError);
  EXPECT_EQ(small.poll_all().size(), 4u);
  // Those with other completion queues go on.
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Engine, RcErrors, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// A queue pair connected to itself is its own peer when things go wrong.
class ToItself : public ::testing::Test {
 protected:
  ToItself() : qp(&pair.a->make_qp(*pair.ca, *pair.ca)) {
    bring_up(*pair.a, *qp, qp->qp.qpn, address(1), {.timeout = 8, .rnr_retry = 1});
  }
  ~ToItself() { pair.expect_idle(); }
  /// All send completions that come, by status.
  std::vector<Status> sends() {
    pair.run_for(std::chrono::milliseconds(10));
    std::vector<Status> out;
    for (const Completed& c : pair.ca->poll_all())
      if (!c.is_receive) out.push_back(c.status);
    return out;
  }
  Pair pair{Way::kLocal};
  TestQp* qp;
};

TEST_F(ToItself, AccessErrorCompletesEachCommandOnce) {
  for (int i = 0; i < 3; ++i)
    pair.a->post(
        *qp,
        {.opcode = abi::Opcode::kRdmaWrite, .sge = {pair.a->make_buffer(8).all()}, .rkey = 4711});
  EXPECT_EQ(sends(),
            (std::vector{Status::kRemoteAccessError, Status::kFlushError, Status::kFlushError}));
  EXPECT_EQ(qp->qp.state, QpState::kError);
}

TEST_F(ToItself, HostileReceiveRing) {
  qp->receives.producer() = 1000;
  for (int i = 0; i < 2; ++i) pair.a->post(*qp, {});
  EXPECT_EQ(sends(), (std::vector{Status::kFlushError, Status::kFlushError}));
}

TEST_F(ToItself, NoReceive) {
  for (int i = 0; i < 2; ++i) pair.a->post(*qp, {});
  EXPECT_EQ(sends(), (std::vector{Status::kRnrRetryExceededError, Status::kFlushError}));
}

/// Looking at many queue pairs costs more than what brings it about, so it is paid for: at those of
/// the session, or at all there is room for.
class LookAtAll : public ::testing::Test {
 protected:
  static EngineLimits limits() {
    EngineLimits limits = Adapter::small_limits();
    limits.queue_pairs = 4096;
    return limits;
  }
  std::uint64_t effort() const { return b.tenant.counters.engine_time.value(); }

  bool is_over() { return b.adapter.engine.cpu().failing.empty(); }
  void make_queue_pairs() {
    for (int i = 0; i < kQueuePairs; ++i) b.make_qp(*pair.cb, *pair.cb);
  }

  static constexpr int kQueuePairs = 300;
  static constexpr std::uint64_t kLookAtSession = kQueuePairs * kSweepCost;
  static constexpr std::uint64_t kLook = 4096 * kSweepCost;
  Pair pair{Way::kLocal, {}, limits()};
  Process& b = *pair.b;
};

TEST_F(LookAtAll, AsCompletionQueuesOverflow) {
  TestCq& small = b.make_cq(1);
  TestQp& qp = b.make_qp(small, small);
  bring_up(b, qp, Qpn(77), address(1));
  b.post_receive(qp, {});
  b.post_receive(qp, {});
  make_queue_pairs();
  const std::uint64_t before = effort();
  b.adapter.engine.queue_pairs().enter_error(qp.qp);
  EXPECT_TRUE(pair.run_until([&] { return small.cq.failed && is_over(); }));
  EXPECT_GE(effort() - before, kLookAtSession);
  EXPECT_LT(effort() - before, 2 * kLookAtSession);
}

TEST_F(LookAtAll, AsQueuesOfXrcGo) {
  TestSrq& srq = b.make_srq(XrcDomainId(1), *pair.cb);
  const std::uint64_t before = effort();
  b.destroy(srq);
  EXPECT_GE(effort() - before, kLook);
}

TEST_F(LookAtAll, AsTheMemoryOfASessionHoldsNonsense) {
  make_queue_pairs();
  const std::uint64_t before = effort();
  b.header().doorbell_producer = abi::kDoorbellEntries + 1;
  EXPECT_TRUE(pair.run_until([&] { return b.session->failed && is_over(); }));
  EXPECT_GE(effort() - before, kLookAtSession);
}

}  // namespace
}  // namespace softhca::engine
