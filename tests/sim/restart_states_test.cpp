// SPDX-License-Identifier: Apache-2.0

// An adapter is replaced while its objects are in a particular state.
#include <gtest/gtest.h>

#include "tests/sim/restart_world.hpp"

namespace softhca::sim {
namespace {

using engine::Buffer;
using engine::EventType;
using engine::Process;
using engine::QpState;
using engine::QpType;
using engine::TestCq;
using engine::TestQp;
using engine::TestSrq;
using Status = abi::CompletionStatus;

class States : public ::testing::TestWithParam<bool> {
 protected:
  States() {
    ca = &world.a->make_cq(64);
    cb = &world.b->make_cq(64, 7);
    from = &world.a->make_buffer(3000);
    to = &world.b->make_buffer(3000);
    from->fill(1);
  }

  void connect_pair(const engine::QpOptions& far = {}) {
    qa = &world.a->make_qp(*ca, *ca);
    qb = &world.b->make_qp(*cb, *cb, far);
    connect(*world.a, *qa, *world.b, *qb);
  }
  void steps(unsigned n) {
    while (n-- > 0) world.step();
  }
  /// Steps until a completion is there.
  std::optional<engine::Completed> wait(TestCq& cq) {
    std::optional<engine::Completed> got;
    for (int i = 0; i < 100000 && !(got = cq.poll()); ++i) world.step();
    return got;
  }
  void expect(TestCq& cq, std::uint32_t index, Status status = Status::kSuccess) {
    const auto got = wait(cq);
    ASSERT_TRUE(got) << "no completion " << index;
    EXPECT_EQ(got->index, index);
    EXPECT_EQ(got->status, status);
  }
  void restart_all() {
    for (unsigned host = 0; host < world.hosts(); ++host) world.restart(host);
  }
  engine::RecordingSink& sink_of(const Process& process) { return process.adapter.sink; }
  void send() { world.a->post(*qa, {.sge = {from->all()}}); }

  Random random{1};
  RestartWorld world{{.local = GetParam()}, random};
  TestCq *ca, *cb;
  TestQp *qa = nullptr, *qb = nullptr;
  Buffer *from, *to;
};

INSTANTIATE_TEST_SUITE_P(, States, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Local" : "Wire"; });

TEST_P(States, IdlePair_Works) {
  connect_pair();
  restart_all();
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 0);
  expect(*cb, 0);
  EXPECT_TRUE(to->equals(*from));
}

/// The adapter has crashed twice with it.
TEST_P(States, Culprit_FailsAndOthersGoOn) {
  connect_pair();
  TestQp* const culprit = qa;
  TestCq& other = world.a->make_cq(64);
  send();  // no receive is there
  TestCq* const of_culprit = std::exchange(ca, &other);
  connect_pair();
  send();
  steps(100);
  world.take_over(0, {Subject::Kind::kQueuePair, culprit->qp.qpn.value});
  EXPECT_EQ(culprit->qp.state, QpState::kError);
  EXPECT_EQ(culprit->qp.error.cause, engine::QpFailure::kCrash);
  EXPECT_EQ(sink_of(*world.a).count(EventType::kQpFatal, culprit->qp.user_handle), 1u);
  expect(*of_culprit, 0, Status::kFlushError);
  world.b->post_receive(*qb, {to->all()});
  expect(other, 0);
  expect(*cb, 0);
  EXPECT_TRUE(to->equals(*from));
  world.restart(0);
  EXPECT_EQ(culprit->qp.state, QpState::kError) << "it stays so";
  EXPECT_EQ(sink_of(*world.a).count(EventType::kQpFatal, culprit->qp.user_handle), 1u);
}

/// The sender has given its commands back to the send queue.
TEST_P(States, StalledForReceives_GoesOnWhenTheyCome) {
  connect_pair();
  for (int i = 0; i < 5; ++i) send();
  steps(3000);
  restart_all();
  steps(3000);
  restart_all();
  EXPECT_FALSE(ca->poll());
  for (int i = 0; i < 5; ++i) world.b->post_receive(*qb, {to->all()});
  for (std::uint32_t i = 0; i < 5; ++i) {
    expect(*ca, i);
    expect(*cb, i);
  }
}

TEST_P(States, ReadyToReceive_TakesTheFirstMessage) {
  qa = &world.a->make_qp(*ca, *ca);
  qb = &world.b->make_qp(*cb, *cb);
  bring_up(*world.a, *qa, qb->qp.qpn, world.b->tenant.addresses[0].gid);
  bring_up(*world.b, *qb, qa->qp.qpn, world.a->tenant.addresses[0].gid, {}, false);
  restart_all();
  EXPECT_EQ(qb->qp.state, QpState::kRtr);
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 0);
  expect(*cb, 0);
  EXPECT_EQ(sink_of(*world.b).count(EventType::kCommunicationEstablished, qb->qp.user_handle), 1u);
}

TEST_P(States, Drained_SendsAfterTheDrain) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 0);
  world.a->adapter.engine.queue_pairs().enter_drain(qa->qp, true);
  send();
  steps(100);
  restart_all();
  EXPECT_EQ(qa->qp.state, QpState::kSqd);
  steps(100);
  EXPECT_FALSE(ca->poll());
  EXPECT_EQ(sink_of(*world.a).count(EventType::kSendQueueDrained, qa->qp.user_handle), 1u);
  world.b->post_receive(*qb, {to->all()});
  world.a->adapter.engine.queue_pairs().enter_ready_to_send(qa->qp, Psn());
  expect(*ca, 1);
}

TEST_P(States, InError_FlushesWhatIsPostedLater) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  world.b->adapter.engine.queue_pairs().enter_error(qb->qp);
  world.a->adapter.engine.queue_pairs().enter_error(qa->qp);
  steps(5);
  restart_all();
  EXPECT_EQ(qa->qp.state, QpState::kError);
  send();
  world.b->post_receive(*qb, {to->all()});
  expect(*ca, 0, Status::kFlushError);
  expect(*cb, 0, Status::kFlushError);
  expect(*cb, 1, Status::kFlushError);
  EXPECT_FALSE(cb->poll());
}

/// The command has failed, and the queue pair has not entered the error state yet.
TEST_P(States, AboutToFail_Fails) {
  connect_pair();
  world.a->post(*qa, {.opcode = static_cast<abi::Opcode>(0x77)});
  send();
  expect(*ca, 0, Status::kLocalQpOperationError);
  restart_all();
  expect(*ca, 1, Status::kFlushError);
  EXPECT_EQ(qa->qp.state, QpState::kError);
}

TEST_P(States, AfterReset_NumbersGoOn) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 0);
  world.a->reset(*qa);
  world.b->reset(*qb);
  restart_all();
  EXPECT_EQ(qa->qp.state, QpState::kReset);
  connect(*world.a, *qa, *world.b, *qb);
  restart_all();
  world.b->post_receive(*qb, {to->all()});
  expect(*cb, 0);
  send();
  expect(*ca, 1);
  expect(*cb, 0);
}

/// The send position of an earlier connection says nothing of the next one.
TEST_P(States, ReadyToReceiveAfterReset_ExpectsTheNewPsn) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 0);
  expect(*cb, 0);
  world.a->reset(*qa);
  world.b->reset(*qb);
  const engine::Connection again{.sq_psn = Psn(0xff0000), .rq_psn = Psn(0xff0000)};
  bring_up(*world.a, *qa, qb->qp.qpn, world.b->tenant.addresses[0].gid, again, false);
  bring_up(*world.b, *qb, qa->qp.qpn, world.a->tenant.addresses[0].gid, again, false);
  restart_all();
  for (auto [process, qp] : {std::pair(world.a.get(), qa), std::pair(world.b.get(), qb)})
    process->adapter.engine.queue_pairs().enter_ready_to_send(qp->qp, again.sq_psn);
  world.b->post_receive(*qb, {to->all()});
  send();
  expect(*ca, 1);
  expect(*cb, 0);
}

// --- events

TEST_P(States, ArmedQueue_HasOneEvent) {
  connect_pair();
  for (int i = 0; i < 4; ++i) world.b->post_receive(*qb, {to->all()});
  const auto events = [&] { return sink_of(*world.b).completions.size(); };
  cb->arm(abi::kArmAny);
  restart_all();
  steps(100);
  EXPECT_EQ(events(), 0u) << "nothing has come";
  send();
  expect(*ca, 0);
  steps(10);
  EXPECT_EQ(events(), 1u);
  restart_all();
  steps(100);
  EXPECT_EQ(events(), 1u) << "not armed";
  cb->arm(abi::kArmAny);
  restart_all();
  steps(100);
  EXPECT_EQ(events(), 2u) << "a completion is there";
}

/// The process does not read its channel.
TEST_P(States, EventThatWaitsForRoom_ComesLater) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  cb->arm(abi::kArmAny);
  sink_of(*world.b).full = true;
  send();
  expect(*ca, 0);
  expect(*cb, 0);
  restart_all();
  EXPECT_EQ(sink_of(*world.b).completions.size(), 0u);
  steps(100);
  EXPECT_EQ(sink_of(*world.b).completions.size(), 1u);
}

TEST_P(States, LimitOfASharedQueue_IsReachedOnce) {
  TestSrq& srq = world.b->make_srq();
  connect_pair({.srq = &srq});
  for (std::uint32_t i = 0; i < 6; ++i) srq.ring.post(i, {to->all()});
  world.b->adapter.engine.receive_queues().set_limit(srq.srq, 4);
  const auto reached = [&] {
    return sink_of(*world.b).count(EventType::kSrqLimitReached, srq.srq.user_handle);
  };
  send();
  expect(*ca, 0);
  restart_all();
  EXPECT_EQ(reached(), 0u);
  EXPECT_EQ(srq.srq.level.armed(), 4u);
  for (std::uint32_t i = 1; i < 4; ++i) {
    send();
    expect(*ca, i);
  }
  EXPECT_EQ(reached(), 1u);
  restart_all();
  send();
  expect(*ca, 4);
  EXPECT_EQ(reached(), 1u) << "it is not armed any more";
}

// --- commands on their way

TEST_P(States, HalfWrittenVcb_IsTakenWhenItIsWhole) {
  connect_pair();
  world.b->post_receive(*qb, {to->all()});
  const std::uint32_t sequence = world.a->write_command(*qa, {.sge = {from->all()}});
  constexpr std::uint64_t kFirst = 0b11;
  world.a->vcb(0).scoreboard.store(0);
  world.a->fill_vcb(0, *qa, sequence, kFirst);
  world.a->hand_over(0);
  steps(50);
  restart_all();
  steps(50);
  world.a->fill_vcb(0, *qa, sequence);
  expect(*ca, 0);
  expect(*cb, 0);
  EXPECT_TRUE(world.a->vcb_free(0));
}

/// Windows stay bound.
TEST_P(States, BoundWindow_OpensTheSameMemory) {
  connect_pair();
  Buffer& open = world.b->make_buffer(3000, Process::kFull | memory::kBindWindow);
  const std::uint32_t key = world.b->make_window() ^ 1;
  world.b->post(*qb, {.opcode = abi::Opcode::kBindWindow,
                      .imm = memory::kRemoteWrite,
                      .remote_addr = open.addr(),
                      .rkey = key,
                      .compare_add = open.size,
                      .swap = open.key});
  expect(*cb, 0);
  restart_all();
  world.a->post(*qa, {.opcode = abi::Opcode::kRdmaWrite,
                      .sge = {from->all()},
                      .remote_addr = open.addr(),
                      .rkey = key});
  expect(*ca, 0);
  EXPECT_TRUE(open.equals(*from));
}

/// What was not restored ends.
TEST_P(States, ObjectsNotRestored_AreGone) {
  connect_pair();
  const Qpn number = qb->qp.qpn;
  TestQp& left_out = world.b->make_qp(*cb, *cb);
  const Qpn gone = left_out.qp.qpn;
  const std::uint32_t window = world.b->make_window();
  world.b->forget(left_out);
  world.b->forget_windows();
  restart_all();
  engine::Engine& next = world.b->adapter.engine;
  EXPECT_NE(next.durable().queue_pairs.find(number), nullptr);
  EXPECT_EQ(next.durable().queue_pairs.find(gone), nullptr);
  EXPECT_FALSE(next.durable().queue_pairs.is_left(gone));
  EXPECT_EQ(next.memory().windows().find(window), nullptr);
  EXPECT_EQ(next.memory().windows().size(), 0u);
}

/// The acknowledgement of the last message was lost, and its receiver is gone.
TEST(RestartTimeWait, GoneQueuePair_AcknowledgesStill) {
  Random random(1);
  RestartWorld world({}, random);
  TestCq &ca = world.a->make_cq(), &cb = world.b->make_cq();
  TestQp &qa = world.a->make_qp(ca, ca), &qb = world.b->make_qp(cb, cb);
  connect(*world.a, qa, *world.b, qb);
  const auto send = [&](bool lost) {
    world.b->post_receive(qb, {});
    world.lose_from(1, lost);
    world.a->post(qa, {});
    for (int i = 0; i < 1000 && !cb.poll(); ++i) world.step();
  };
  send(false);
  for (int i = 0; i < 1000 && !ca.poll(); ++i) world.step();
  send(true);
  EXPECT_FALSE(ca.poll());
  world.b->destroy(qb);
  world.restart(1);
  world.lose_from(1, false);
  std::optional<engine::Completed> done;
  for (int i = 0; i < 100000 && !(done = ca.poll()); ++i) world.step();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, Status::kSuccess);
}

}  // namespace
}  // namespace softhca::sim
