// SPDX-License-Identifier: Apache-2.0

// Extended reliable connected service: an initiator of `a`, a target and shared receive queues of
// `b`, in one adapter and over the wire.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr XrcDomainId kXrcDomain(7);
constexpr XrcDomainId kOtherDomain(8);

class Xrc : public BothWays {
 protected:
  Xrc() : pair(GetParam()) {
    initiator = &a.make_qp(*pair.ca, *pair.ca, {.type = QpType::kXrcSend});
    target =
        &b.make_qp(*pair.cb, *pair.cb, {.type = QpType::kXrcReceive, .xrc_domain = kXrcDomain});
    connect(a, *initiator, b, *target);
    srq = &b.make_srq(kXrcDomain, *pair.cb);
  }
  ~Xrc() { pair.expect_idle(); }

  std::uint32_t number_of(const TestSrq& queue) const { return queue.srq.number; }
  Work work(abi::Opcode opcode, Buffer& near) {
    return {.opcode = opcode, .sge = {near.all()}, .remote_srq = number_of(*srq)};
  }
  Work remote(abi::Opcode opcode, Buffer& near, Buffer& far) {
    Work w = work(opcode, near);
    w.remote_addr = far.addr();
    w.rkey = far.key;
    return w;
  }
  Status run(const Work& w) {
    a.post(*initiator, w);
    return pair.wait_status(*pair.ca);
  }
  /// The initiator is told so; the target ends, and its program hears of it.
  void expect_refused(const Work& w, Status status, EventType event) {
    EXPECT_EQ(run(w), status);
    EXPECT_TRUE(pair.run_until([&] { return target->qp.state == QpState::kError; }));
    EXPECT_EQ(initiator->qp.state, QpState::kError);
    EXPECT_EQ(pair.sink_of(b).count(event, target->qp.user_handle), 1u);
    EXPECT_EQ(pair.sink_of(b).count(EventType::kQpLastWqeReached, target->qp.user_handle), 1u);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  TestQp* initiator = nullptr;
  TestQp* target = nullptr;
  TestSrq* srq = nullptr;
};

TEST_P(Xrc, SendFillsAReceiveOfTheQueueItNames) {
  TestCq& other_cq = b.make_cq();
  TestSrq& other = b.make_srq(kXrcDomain, other_cq);
  Buffer& from = a.make_buffer(3000);
  Buffer& to = b.make_buffer(3000);
  Buffer& second = b.make_buffer(3000);
  from.fill(1);
  srq->ring.post(11, {to.all()});
  other.ring.post(12, {second.all()});
  Work send = work(abi::Opcode::kSendWithImm, from);
  send.imm = 0x1234;
  send.remote_srq = number_of(other);
  EXPECT_EQ(run(send), Status::kSuccess);
  const auto received = pair.wait(other_cq);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, Status::kSuccess);
  EXPECT_EQ(received->index, 12u);
  EXPECT_EQ(received->byte_len, 3000u);
  EXPECT_EQ(received->imm, 0x1234u);
  EXPECT_EQ(received->qpn, target->qp.qpn.value);
  EXPECT_EQ(received->source, number_of(other));
  EXPECT_TRUE(second.equals(from));
  EXPECT_TRUE(to.is_zero());
  EXPECT_FALSE(pair.cb->poll());

  EXPECT_EQ(run(work(abi::Opcode::kSend, from)), Status::kSuccess);
  EXPECT_EQ(pair.wait(*pair.cb).value().index, 11u);
  EXPECT_TRUE(to.equals(from));
}

TEST_P(Xrc, WritesReadsAndAtomics) {
  Buffer& near = a.make_buffer(5000);
  Buffer& far = b.make_buffer(5000);
  near.fill(2);
  EXPECT_EQ(run(remote(abi::Opcode::kRdmaWrite, near, far)), Status::kSuccess);
  EXPECT_TRUE(far.equals(near));
  Buffer& back = a.make_buffer(5000);
  EXPECT_EQ(run(remote(abi::Opcode::kRdmaRead, back, far)), Status::kSuccess);
  EXPECT_TRUE(back.equals(near));

  srq->ring.post(5, {});
  Work write = remote(abi::Opcode::kRdmaWriteWithImm, near, far);
  write.imm = 77;
  EXPECT_EQ(run(write), Status::kSuccess);
  const auto received = pair.wait(*pair.cb).value();
  EXPECT_EQ(received.opcode, abi::CompletionOpcode::kReceiveRdmaWithImm);
  EXPECT_EQ(received.index, 5u);
  EXPECT_EQ(received.imm, 77u);

  Buffer& word = a.make_buffer(8);
  far.words[0] = 40;
  Work add = remote(abi::Opcode::kFetchAdd, word, far);
  add.compare_add = 2;
  EXPECT_EQ(run(add), Status::kSuccess);
  EXPECT_EQ(word.words[0], 40u);
  Work swap = remote(abi::Opcode::kCompareSwap, word, far);
  swap.compare_add = 42;
  swap.swap = 9;
  EXPECT_EQ(run(swap), Status::kSuccess);
  EXPECT_EQ(word.words[0], 42u);
  EXPECT_EQ(far.words[0], 9u);
}

TEST_P(Xrc, KeysAreThoseOfTheQueuesDomain) {
  Process c(b.adapter, b.tenant);
  TestCq& its_cq = c.make_cq();
  TestSrq& its = c.make_srq(kXrcDomain, its_cq);
  Buffer& near = a.make_buffer(64);
  Buffer& far = c.make_buffer(64);
  near.fill(3);
  Work write = remote(abi::Opcode::kRdmaWrite, near, far);
  write.remote_srq = number_of(its);
  EXPECT_EQ(run(write), Status::kSuccess);
  EXPECT_TRUE(far.equals(near));
  // The same key by way of a queue of another protection domain.
  expect_refused(remote(abi::Opcode::kRdmaWrite, near, far), Status::kRemoteAccessError,
                 EventType::kQpAccessError);
}

TEST_P(Xrc, ReceiverNotReadyWaits) {
  Buffer& from = a.make_buffer(100);
  Buffer& to = b.make_buffer(100);
  from.fill(4);
  a.post(*initiator, work(abi::Opcode::kSend, from));
  pair.run_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(pair.ca->poll());
  srq->ring.post(1, {to.all()});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  EXPECT_TRUE(to.equals(from));
}

TEST_P(Xrc, NoSuchQueueIsAnInvalidRequest) {
  Work send = work(abi::Opcode::kSend, a.make_buffer(8));
  send.remote_srq = 0xfffffe;
  expect_refused(send, Status::kRemoteInvalidRequestError, EventType::kQpRequestError);
}

TEST_P(Xrc, QueueOfAnotherDomainIsAnInvalidRequest) {
  TestSrq& other = b.make_srq(kOtherDomain, *pair.cb);
  Buffer& to = b.make_buffer(8);
  other.ring.post(0, {to.all()});
  Work send = work(abi::Opcode::kSend, a.make_buffer(8));
  send.remote_srq = number_of(other);
  expect_refused(send, Status::kRemoteInvalidRequestError, EventType::kQpRequestError);
  EXPECT_EQ(other.srq.ring.taken(), 0u);
}

TEST_P(Xrc, QueueThatIsNotOfXrcIsAnInvalidRequest) {
  Work send = work(abi::Opcode::kSend, a.make_buffer(8));
  send.remote_srq = number_of(b.make_srq());
  expect_refused(send, Status::kRemoteInvalidRequestError, EventType::kQpRequestError);
}

TEST_P(Xrc, QueueThatGoesUnderAMessageRefusesTheRest) {
  Buffer& from = a.make_buffer(1 << 20);
  Buffer& to = b.make_buffer(1 << 20);
  srq->ring.post(0, {to.all()});
  a.post(*initiator, work(abi::Opcode::kSend, from));
  ASSERT_TRUE(pair.run_until([&] { return target->qp.rq.drawn; }));
  ASSERT_FALSE(pair.ca->poll());
  b.destroy(*srq);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteInvalidRequestError);
  EXPECT_FALSE(pair.cb->poll());
}

TEST_P(Xrc, FailedCompletionQueueFailsTheReceiveQueue) {
  TestCq& small = b.make_cq(2);
  TestSrq& other = b.make_srq(kXrcDomain, small);
  for (std::uint32_t i = 0; i < 4; ++i) other.ring.post(i, {});
  Work send{.opcode = abi::Opcode::kSend, .remote_srq = number_of(other)};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(send), Status::kSuccess);
  EXPECT_EQ(pair.sink_of(b).count(EventType::kSrqError, other.srq.user_handle), 1u);
  EXPECT_EQ(run(send), Status::kRemoteInvalidRequestError);
}

TEST_P(Xrc, TargetOutlivesWhoMadeIt) {
  Process c(b.adapter, b.tenant);
  Engine& engine = b.adapter.engine;
  constexpr std::uint64_t kItsHandle = 0x4711;
  engine.queue_pairs().share(target->qp, {c.session.get(), kItsHandle});
  engine.queue_pairs().unshare(target->qp, {b.session.get(), target->qp.user_handle});
  EXPECT_EQ(target->qp.session, c.session.get());
  TestCq& its_cq = c.make_cq();
  TestSrq& its = c.make_srq(kXrcDomain, its_cq);
  Buffer& from = a.make_buffer(64);
  Buffer& to = c.make_buffer(64);
  from.fill(5);
  its.ring.post(3, {to.all()});
  Work send = work(abi::Opcode::kSend, from);
  send.remote_srq = number_of(its);
  EXPECT_EQ(run(send), Status::kSuccess);
  EXPECT_EQ(pair.wait(its_cq).value().index, 3u);
  EXPECT_TRUE(to.equals(from));
  send.remote_srq = 0;
  EXPECT_EQ(run(send), Status::kRemoteInvalidRequestError);
  EXPECT_TRUE(pair.run_until([&] { return target->qp.state == QpState::kError; }));
  EXPECT_EQ(pair.sink_of(b).count(EventType::kQpRequestError, kItsHandle), 1u);
  b.destroy(*target);
}

/// Or a level that is removed would wait for it.
TEST_P(Xrc, TargetWhoseMakerHasGoneIsOfTheHeirsLevel) {
  Engine& engine = b.adapter.engine;
  auto& level = *b.tenant.levels.emplace_back(std::make_unique<Level>());
  const auto group = engine.pcbs().add_group(
      {.tenant = b.tenant.id, .guaranteed = 0, .may_share = true, .parent = b.tenant.qos_class});
  ASSERT_TRUE(group);
  level.qos_class = *group;
  std::vector<TvlId> lanes;
  for (const auto purpose : {schedule::TvlPurpose::kCommands, schedule::TvlPurpose::kDedicated}) {
    const auto lane = engine.tvl_assignment().add({.tenant = b.tenant.id,
                                                   .qos_class = level.qos_class,
                                                   .purpose = purpose,
                                                   .max_kick_list = 4,
                                                   .may_share = true});
    ASSERT_TRUE(lane);
    lanes.push_back(*lane);
  }
  engine.add_level(level);
  {
    Process c(b.adapter, b.tenant, Process::kVcbs, &level);
    TestCq& cq = c.make_cq();
    TestQp& its = c.make_qp(cq, cq, {.type = QpType::kXrcReceive, .xrc_domain = kXrcDomain});
    engine.queue_pairs().share(its.qp, {b.session.get(), 1});
    engine.queue_pairs().unshare(its.qp, {c.session.get(), its.qp.user_handle});
    for (const TvlId lane : lanes) EXPECT_EQ(engine.tvls()[lane].queue_pairs, 0u);
    engine.queue_pairs().share(its.qp, {c.session.get(), its.qp.user_handle});
    engine.queue_pairs().unshare(its.qp, {b.session.get(), 1});
    for (const TvlId lane : lanes) EXPECT_EQ(engine.tvls()[lane].queue_pairs, 1u);
  }
  for (const TvlId lane : lanes) EXPECT_TRUE(engine.tvls().remove(lane));
}

TEST_P(Xrc, EventsGoToAllWhoHoldTheTarget) {
  Process c(b.adapter, b.tenant);
  Engine& engine = b.adapter.engine;
  engine.queue_pairs().share(target->qp, {c.session.get(), 1});
  engine.queue_pairs().share(target->qp, {c.session.get(), 2});
  engine.queue_pairs().unshare(target->qp, {c.session.get(), 1});
  engine.queue_pairs().enter_error(target->qp);
  pair.steps(1);
  RecordingSink& sink = pair.sink_of(b);
  EXPECT_EQ(sink.count(EventType::kQpLastWqeReached, target->qp.user_handle), 1u);
  EXPECT_EQ(sink.count(EventType::kQpLastWqeReached, 1), 0u);
  EXPECT_EQ(sink.count(EventType::kQpLastWqeReached, 2), 1u);
  engine.queue_pairs().unshare(target->qp, {c.session.get(), 2});
}

TEST_P(Xrc, ErrorFlushesTheInitiator) {
  b.adapter.engine.queue_pairs().enter_error(initiator->qp.is_local() ? initiator->qp : target->qp);
  a.adapter.engine.queue_pairs().enter_error(initiator->qp);
  EXPECT_EQ(run(work(abi::Opcode::kSend, a.make_buffer(8))), Status::kFlushError);
  pair.run_for(std::chrono::milliseconds(10));
  a.reset(*initiator);
  b.reset(*target);
}

/// What it sends by its initiator waits for the target, which has no queue before the first message
/// and none after the end of the one that it used.
TEST_P(Xrc, AStalledInitiatorHasATargetWithoutAQueue) {
  Buffer& near = a.make_buffer(8);
  b.reset(*target);
  a.post(*initiator, work(abi::Opcode::kSend, near));
  pair.run_for(std::chrono::microseconds(200));
  bring_up(b, *target, initiator->qp.qpn, address(1));
  pair.run_for(std::chrono::milliseconds(20));  // no receive
  EXPECT_TRUE(pair.ca->poll_all().empty());
  b.destroy(*srq);
  EXPECT_TRUE(pair.run_until([&] { return initiator->qp.state == QpState::kError; }));
}

/// A process names the target's number in its own doorbells and buffers.
TEST_P(Xrc, NothingCanBePostedToATarget) {
  const std::uint64_t before = b.tenant.counters.refused.malformed_commands.value();
  b.ring(target->qp.qpn.value, 3);
  b.post(*target, {.opcode = abi::Opcode::kSend});
  b.adapter.engine.queue_pairs().enter_error(target->qp);
  b.ring(target->qp.qpn.value, 4);
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(b.tenant.counters.refused.malformed_commands.value() - before, 3u);
  EXPECT_EQ(target->qp.sq.commands, 0u);
}

/// A limit of a connection counts for each queue by itself, and changing between them evades none.
TEST_P(Xrc, ProvisioningFollowsTheQueue) {
  SrqPolicy policy;
  policy.limits.fill(2);
  provision(b.adapter.engine, b.tenant, policy);
  TestSrq& other = b.make_srq(kXrcDomain, *pair.cb);
  for (TestSrq* queue : {srq, &other})
    for (std::uint32_t i = 0; i < 8; ++i) queue->ring.post(i, {});
  Work send{.opcode = abi::Opcode::kSend};
  for (int round = 0; round < 2; ++round)
    for (TestSrq* queue : {srq, &other}) {
      send.remote_srq = number_of(*queue);
      EXPECT_EQ(run(send), Status::kSuccess);
    }
  a.post(*initiator, send);
  pair.run_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(pair.ca->poll()) << "a third receive of the same queue";
  pair.cb->poll_all();
  other.ring.post(0, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Ways, Xrc, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
