// SPDX-License-Identifier: Apache-2.0

// Sessions that end, shared receive queues, and events that no process reads.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class SessionEnd : public BothWays {
 protected:
  SessionEnd() : pair(GetParam()) {}
  Pair pair;
};

TEST_P(SessionEnd, GivesBackEverythingInMidTraffic) {
  pair.connect_pair({.timeout = 10}, {.send_entries = 64, .receive_entries = 64});
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer& from = a.make_buffer(1 << 20);
  Buffer& to = b.make_buffer(1 << 20);
  for (int i = 0; i < 3; ++i) b.post_receive(*pair.qb, {to.all()});
  for (int i = 0; i < 40; ++i)
    a.post(*pair.qa, {.sge = {from.all()}}, i % 2 ? Process::Way::kVcb : Process::Way::kDoorbell);
  // One more in pieces, that never becomes whole.
  a.write_command(*pair.qa, {});
  for (std::uint32_t v = 0; v < Process::kVcbs; ++v)
    if (a.vcb_free(v)) {
      a.vcb(v).scoreboard = 3;
      a.hand_over(v);
    }
  pair.steps(4);
  a.end();
  for (const auto& adapter : pair.adapters)
    if (adapter.get() == &a.adapter) adapter->expect_idle();
  EXPECT_EQ(a.tenant.counters.sessions.value(), 0u);
  EXPECT_EQ(a.tenant.counters.queue_pairs.value(), 0u);
  EXPECT_EQ(a.adapter.engine.keys().lookup(from.key), nullptr);
  pair.run_for(std::chrono::milliseconds(50));
  EXPECT_EQ(pair.qb->qp.state, QpState::kRts);
}

TEST_P(SessionEnd, OfTheReceiver) {
  pair.connect_pair({.timeout = 8, .retry_count = 1});
  Buffer& from = pair.a->make_buffer(16 << 20);
  Buffer& to = pair.b->make_buffer(16 << 20);
  pair.b->post_receive(*pair.qb, {to.all()});
  pair.a->post(*pair.qa, {.sge = {from.all()}});
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.rq.drawn; }));
  pair.b->end();
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
}

TEST_P(SessionEnd, NumbersAreNotUsedAgainSoon) {
  TestQp& first = pair.a->make_qp(*pair.ca, *pair.ca);
  const Qpn number = first.qp.qpn;
  pair.a->destroy(first);
  for (int i = 0; i < 1000; ++i) {
    TestQp& next = pair.a->make_qp(*pair.ca, *pair.ca);
    EXPECT_NE(next.qp.qpn, number);
    EXPECT_GT(next.qp.qpn.value, 1u);
    pair.a->destroy(next);
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, SessionEnd, ::testing::Values(Way::kLocal, Way::kWire), way_name);

TEST(Parking, WakesForWhatIsPosted) {
  Pair pair(Way::kLocal);
  pair.connect_pair();
  Engine& engine = pair.a->adapter.engine;
  ASSERT_TRUE(engine.intake().park(*pair.a->session));
  EXPECT_EQ(pair.a->header().parked.load(), 1u);
  EXPECT_EQ(engine.intake().parked(), 1u);
  pair.a->post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite});
  pair.steps(10);
  EXPECT_TRUE(pair.ca->poll_all().empty());
  engine.intake().unpark(*pair.a->session);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.a->post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite});
  EXPECT_FALSE(engine.intake().park(*pair.a->session)) << "work came in meanwhile";
  EXPECT_EQ(pair.a->header().parked.load(), 0u);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

class Srq : public BothWays {
 protected:
  Srq() : pair(GetParam()) {
    pair.srq = srq = &pair.b->make_srq(16);
    pair.connect_pair();
  }
  std::size_t limits() const {
    return pair.b->adapter.sink.count(EventType::kSrqLimitReached, srq->srq.user_handle);
  }
  Pair pair;
  TestSrq* srq;
};

TEST_P(Srq, LimitIsToldOnce) {
  Buffer& to = pair.b->make_buffer(8);
  for (std::uint32_t i = 0; i < 4; ++i) srq->ring.post(i, {to.all()});
  pair.b->adapter.engine.receive_queues().set_limit(srq->srq, 3);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(limits(), i < 2 ? 0u : 1u);
    pair.a->post(*pair.qa, {});
    EXPECT_EQ(pair.wait(*pair.cb).value().index, i);
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  }
  EXPECT_EQ(srq->srq.level.armed(), 0u);
  pair.b->adapter.engine.receive_queues().set_limit(srq->srq, 1);
  EXPECT_EQ(limits(), 2u) << "below the limit already";
}

TEST_P(Srq, ServesAllItsQueuePairs) {
  TestQp& qa = pair.a->make_qp(*pair.ca, *pair.ca);
  TestQp& qb = pair.b->make_qp(*pair.cb, *pair.cb, {.srq = srq});
  connect(*pair.a, qa, *pair.b, qb);
  for (std::uint32_t i = 0; i < 2; ++i) srq->ring.post(10 + i, {});
  pair.a->post(*pair.qa, {});
  EXPECT_EQ(pair.wait(*pair.cb).value().index, 10u);
  pair.a->post(qa, {});
  const auto second = pair.wait(*pair.cb);
  EXPECT_EQ(second.value().index, 11u);
  EXPECT_EQ(second.value().qpn, qb.qp.qpn.value);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

/// A drawn element comes back by a completion when its queue pair is destroyed (abi/control.hpp).
TEST_P(Srq, DestroyedQueuePairLosesNone) {
  Buffer& from = pair.a->make_buffer(16 << 20);
  Buffer& to = pair.b->make_buffer(16 << 20);
  srq->ring.post(5, {to.all()});
  pair.a->post(*pair.qa, {.sge = {from.all()}});
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.rq.drawn; }));
  pair.b->destroy(*pair.qb);
  const auto back = pair.cb->poll_all();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].index, 5u);
  EXPECT_EQ(back[0].status, Status::kFlushError);
}

INSTANTIATE_TEST_SUITE_P(Engine, Srq, ::testing::Values(Way::kLocal, Way::kWire), way_name);

class Events : public ::testing::Test {
 protected:
  Events()
      : session(*pair.a->session), engine(pair.a->adapter.engine), sink(pair.a->adapter.sink) {}
  /// An asynchronous event about `element`.
  void raise(std::uint64_t element) {
    engine.async_events().raise(session, element, EventType::kPortActive);
  }
  Pair pair{Way::kLocal};
  Session& session;
  Engine& engine;
  RecordingSink& sink;
};

TEST_F(Events, WaitForAProcessThatDoesNotReadAndStayInOrder) {
  sink.full = true;
  raise(1);
  sink.full = false;
  raise(2);
  EXPECT_TRUE(sink.async.empty());
  pair.run_for(std::chrono::milliseconds(3));
  ASSERT_EQ(sink.async.size(), 2u);
  EXPECT_EQ(sink.async[0].element, 1u);
  EXPECT_EQ(sink.async[1].element, 2u);
  EXPECT_EQ(engine.next_deadline(), kNever);
  raise(3);
  EXPECT_EQ(sink.async.size(), 3u);
}

TEST_F(Events, NobodyReadsIsBoundedAndCheap) {
  sink.full = true;
  for (std::uint64_t i = 0; i < 10000; ++i) raise(i);
  sink.attempts = 0;
  pair.run_for(std::chrono::milliseconds(10));
  EXPECT_LE(sink.attempts, 12u) << "one attempt a millisecond, not one per event";
  sink.attempts = 0;
  pair.run_for(std::chrono::seconds(1));
  EXPECT_LE(sink.attempts, 24u) << "less and less often";
  sink.full = false;
  pair.run_for(std::chrono::milliseconds(100));
  EXPECT_EQ(sink.async.size(), 256u);
  EXPECT_EQ(pair.a->tenant.counters.completion.events_deferred.value(), 10000u);
}

TEST_F(Events, OfASessionThatEndedAreForgotten) {
  sink.full = true;
  raise(1);
  TestCq& cq = pair.a->make_cq(64, 9);
  cq.arm(abi::kArmAny);
  TestQp& qp = pair.a->make_qp(cq, cq);
  bring_up(*pair.a, qp, qp.qp.qpn, address(1));
  pair.a->post(qp, {.opcode = abi::Opcode::kRdmaWrite});
  EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
  pair.steps(3);
  pair.a->end();
  sink.full = false;
  pair.run_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(sink.async.empty());
  EXPECT_TRUE(sink.completions.empty());
}

/// A process that arms again and again without reading is owed as many events, and no list grows.
TEST_F(Events, ChannelIsFull_EventsWaitAndAreNotLost) {
  TestCq& cq = pair.a->make_cq(64, 9);
  TestQp& qp = pair.a->make_qp(cq, cq);
  bring_up(*pair.a, qp, qp.qp.qpn, address(1));
  sink.full = true;
  constexpr std::size_t kEvents = 30;
  for (std::size_t i = 0; i < kEvents; ++i) {
    cq.arm(abi::kArmAny);
    pair.a->post(qp, {.opcode = abi::Opcode::kRdmaWrite});
    EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
    pair.step();
  }
  sink.full = false;
  pair.run_for(2 * EventRetry::kLongest);
  EXPECT_EQ(sink.completions.size(), kEvents);
}

TEST_F(Events, ArmedAgainBeforeTheEventIsFetched_AnotherEventComes) {
  TestCq& cq = pair.a->make_cq(64, 9);
  TestQp& qp = pair.a->make_qp(cq, cq);
  bring_up(*pair.a, qp, qp.qp.qpn, address(1));
  for (std::size_t events = 0; events < 5; ++events) {
    for (const std::size_t arms : {0u, 1u, 2u}) {
      for (std::size_t i = 0; i < arms; ++i) cq.arm(abi::kArmAny);
      pair.a->post(qp, {.opcode = abi::Opcode::kRdmaWrite});
      EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
      pair.step();
      EXPECT_EQ(sink.completions.size(), 2 * events + arms);
    }
  }
}

}  // namespace
}  // namespace softhca::engine
