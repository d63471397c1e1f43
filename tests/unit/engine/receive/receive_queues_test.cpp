// SPDX-License-Identifier: Apache-2.0

// Receives of queue pairs, shared receive queues and XRC targets, without an engine.
#include "daemon/engine/receive/receive_queues.hpp"

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

const XrcDomainId kDomain(3);

class Receives : public ::testing::Test {
 protected:
  Receives() { cpu.order().join(QosClassId(0), TenantId(0)); }

  TestQp& make_qp(const QpOptions& options = {}) {
    pairs.push_back(std::make_unique<TestQp>(options));
    QueuePair& qp = pairs.back()->qp;
    qp.type = options.type;
    qp.tenant = &tenant;
    qp.session = &session;
    qp.state = QpState::kRts;
    qp.rq.cq = &cq.cq;
    qp.xrc_domain = options.xrc_domain;
    qp.user_handle = 100 + pairs.size();
    if (options.srq != nullptr) {
      qp.srq = &options.srq->srq;
      ++qp.srq->users;
    } else if (qp.receives()) {
      qp.rq.ring =
          shm::ReceiveRing(pairs.back()->receives.base(), options.receive_entries, options.max_sge);
    }
    EXPECT_TRUE(queue_pairs.add(qp));
    return *pairs.back();
  }
  TestSrq& make_srq(XrcDomainId domain = {}) {
    constexpr std::uint32_t kEntries = 16, kSge = 4;
    srqs.push_back(std::make_unique<TestSrq>(kEntries, kSge));
    SharedReceiveQueue& srq = srqs.back()->srq;
    srq.session = &session;
    srq.ring = shm::ReceiveRing(srqs.back()->ring.base(), kEntries, kSge);
    srq.user_handle = 200 + srqs.size();
    srq.xrc_domain = domain;
    srq.cq = &cq.cq;
    receives.add(srq);
    return *srqs.back();
  }
  static void post(TestSrq& srq, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) srq.ring.post(i, {{0x1000, 64, 1}});
  }
  /// Each queue pair may hold so many buffers of a queue.
  SrqPolicy limit_all(std::uint32_t limit) {
    SrqPolicy policy;
    policy.limits.fill(limit);
    for (auto& [queue, provisioner] : receives.make_provisioners(tenant, policy, {}))
      receives.start_provisioning(*queue, std::move(provisioner));
    receives.set_policy(tenant, policy, {});
    return policy;
  }

  StepClock clock;
  Tenant tenant;
  RingMemory memory{sizeof(abi::SessionHeader)};
  Session session{SessionId(1), tenant, shm::SessionView(memory.base(), 0), VcbId(0)};
  RecordingSink sink;
  AsyncEvents async{sink, clock, cpu, 4};
  DurableState state{{.queue_pairs = 64}};
  QpTable queue_pairs{state};
  CpuScheduler cpu{clock, 64, 1, 1};
  CompletionQueues completions{sink, async, clock, cpu};
  EventLog log{clock, 1};
  ReceiveQueues receives{clock, queue_pairs, cpu, async, completions, log};
  TestCq cq{session, 64, 1, -1};
  std::vector<std::unique_ptr<TestSrq>> srqs;
  std::vector<std::unique_ptr<TestQp>> pairs;
};

TEST_F(Receives, AreDrawnAndCompletedInOrder) {
  TestQp& qp = make_qp();
  EXPECT_FALSE(ReceiveQueues::has_receive(qp.qp));
  EXPECT_EQ(receives.draw(qp.qp), shm::Take::kEmpty);
  for (std::uint32_t i = 0; i < 2; ++i) qp.receives.post(i, {{0x1000, 64, 1}});
  EXPECT_TRUE(ReceiveQueues::has_receive(qp.qp));
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(receives.draw(qp.qp), shm::Take::kTaken);
    EXPECT_TRUE(qp.qp.rq.drawn);
    receives.complete(qp.qp, {.verdict = Verdict::kOk, .byte_len = 5, .source = Qpn(9)});
    const auto done = cq.poll();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->index, i);
    EXPECT_EQ(done->byte_len, 5u);
    EXPECT_EQ(done->source, 9u);
    EXPECT_FALSE(qp.qp.rq.drawn);
  }
}

TEST_F(Receives, HostileRingFailsItsQueuePair) {
  TestQp& qp = make_qp();
  qp.receives.producer().store(1000);
  EXPECT_EQ(receives.draw(qp.qp), shm::Take::kHostile);
  EXPECT_TRUE(qp.qp.error.pending);
  EXPECT_EQ(cpu.begin(), qp.qp.slot) << "its turn comes, to be flushed";
  EXPECT_EQ(sink.count(EventType::kQpFatal, qp.qp.user_handle), 1u);
  ASSERT_EQ(log.count(), 1u);
  EXPECT_EQ(log[0].kind, DaemonEventKind::kHostileMemory);
  EXPECT_EQ(tenant.counters.refused.hostile_memory.value(), 1u);
}

/// The queue of several fails, not those that draw from it (IBA 10.2.9.4).
TEST_F(Receives, HostileSharedRingFailsTheSharedQueue) {
  TestSrq& srq = make_srq();
  TestQp& a = make_qp({.srq = &srq});
  srq.ring.producer().store(1000);
  EXPECT_EQ(receives.draw(a.qp), shm::Take::kHostile);
  EXPECT_FALSE(a.qp.error.pending);
  EXPECT_TRUE(srq.srq.failed);
  EXPECT_EQ(sink.count(EventType::kSrqError, srq.srq.user_handle), 1u);
  EXPECT_EQ(receives.draw(a.qp), shm::Take::kEmpty) << "and is not looked at again";
}

TEST_F(Receives, LimitEventComesOncePerArming) {
  TestSrq& srq = make_srq();
  TestQp& qp = make_qp({.srq = &srq});
  const auto raised = [&] { return sink.count(EventType::kSrqLimitReached, srq.srq.user_handle); };
  post(srq, 4);
  receives.set_limit(srq.srq, 3);
  EXPECT_EQ(raised(), 0u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(receives.draw(qp.qp), shm::Take::kTaken);
    receives.complete(qp.qp, {});
    EXPECT_EQ(raised(), i == 0 ? 0u : 1u);
  }
  receives.set_limit(srq.srq, 3);
  EXPECT_EQ(raised(), 2u) << "at once, when there are fewer already";
}

TEST_F(Receives, HardLimitLeavesTheRestForOthers) {
  TestSrq& srq = make_srq();
  TestQp& greedy = make_qp({.srq = &srq});
  TestQp& other = make_qp({.srq = &srq});
  limit_all(2);
  post(srq, 4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(receives.draw(greedy.qp), shm::Take::kTaken);
    receives.complete(greedy.qp, {});
  }
  EXPECT_EQ(receives.draw(greedy.qp), shm::Take::kEmpty);
  EXPECT_EQ(receives.draw(other.qp), shm::Take::kTaken);
  ASSERT_GE(log.count(), 1u);
  EXPECT_EQ(log[log.count() - 1].kind, DaemonEventKind::kSrqHardLimit);
}

/// The limit event that is armed, what drew before the resize, and the levels of the new size.
TEST_F(Receives, AResizedQueueGoesOnInItsNewRing) {
  TestSrq& srq = make_srq();
  TestQp& qp = make_qp({.srq = &srq});
  post(srq, 10);
  receives.set_limit(srq.srq, 8);
  ASSERT_EQ(receives.draw(qp.qp), shm::Take::kTaken);
  receives.complete(qp.qp, {});
  constexpr std::uint32_t kEntries = 64;
  RingMemory larger(shm::ReceiveRing::bytes_for(kEntries, 4));
  ASSERT_EQ(srq.srq.ring.available(), 9u);
  const shm::ReceiveRing ring = srq.srq.ring.copy_to(larger.base(), kEntries);
  ASSERT_EQ(receives.draw(qp.qp), shm::Take::kTaken) << "in between";
  EXPECT_EQ(receives.resize(srq.srq, ring, nullptr), nullptr);
  receives.complete(qp.qp, {});
  EXPECT_EQ(srq.srq.level.entries(), kEntries);
  EXPECT_EQ(srq.srq.level.armed(), 8u);
  EXPECT_EQ(sink.count(EventType::kSrqLimitReached, srq.srq.user_handle), 0u);
  for (std::uint32_t i = 2; i < 10; ++i) {
    ASSERT_EQ(receives.draw(qp.qp), shm::Take::kTaken);
    EXPECT_EQ(qp.qp.rq.work->index, i);
    receives.complete(qp.qp, {});
    EXPECT_EQ(sink.count(EventType::kSrqLimitReached, srq.srq.user_handle), 1u);
  }
  EXPECT_EQ(receives.draw(qp.qp), shm::Take::kEmpty);
}

TEST_F(Receives, LimitsOfAResizedQueueBeginAnew) {
  TestSrq& srq = make_srq();
  TestQp& greedy = make_qp({.srq = &srq});
  TestQp& other = make_qp({.srq = &srq});
  const SrqPolicy policy = limit_all(2);
  post(srq, 10);
  const auto draws = [&](TestQp& qp) {
    if (receives.draw(qp.qp) != shm::Take::kTaken) return false;
    receives.complete(qp.qp, {});
    return true;
  };
  EXPECT_TRUE(draws(greedy));
  ASSERT_EQ(receives.draw(greedy.qp), shm::Take::kTaken) << "and does not complete it yet";
  RingMemory smaller(shm::ReceiveRing::bytes_for(8, 4));
  ASSERT_EQ(srq.srq.ring.available(), 8u);
  const shm::ReceiveRing ring = srq.srq.ring.copy_to(smaller.base(), 8);
  const auto before = receives.resize(
      srq.srq, ring, std::make_unique<receive::Provisioner>(8, policy, tenant.counters.receive));
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(tenant.counters.receive.held.value(), 0u);
  EXPECT_TRUE(draws(other));
  receives.complete(greedy.qp, {});
  EXPECT_EQ(srq.srq.provisioner->held_by(greedy.qp.rq.member), 0u);
  EXPECT_EQ(srq.srq.provisioner->held_by(other.qp.rq.member), 1u);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(draws(greedy));
  EXPECT_FALSE(draws(greedy));
  EXPECT_TRUE(draws(other));
  EXPECT_FALSE(draws(other));
}

TEST_F(Receives, NumbersOfXrcQueuesAreFoundInTheirDomainOnly) {
  TestSrq& srq = make_srq(kDomain);
  TestSrq& plain = make_srq();
  TestQp& inside = make_qp({.type = QpType::kXrcReceive, .xrc_domain = kDomain});
  TestQp& outside = make_qp({.type = QpType::kXrcReceive, .xrc_domain = XrcDomainId(4)});
  EXPECT_EQ(receives.find_xrc(inside.qp, srq.srq.number), &srq.srq);
  EXPECT_EQ(receives.find_xrc(outside.qp, srq.srq.number), nullptr);
  EXPECT_EQ(receives.find_xrc(inside.qp, plain.srq.number), nullptr);
  EXPECT_EQ(receives.choose(outside.qp, srq.srq.number), Verdict::kRemoteInvalidRequest);
}

TEST_F(Receives, XrcTargetDrawsFromTheQueueItChose) {
  TestSrq& first = make_srq(kDomain);
  TestSrq& second = make_srq(kDomain);
  TestQp& target = make_qp({.type = QpType::kXrcReceive, .xrc_domain = kDomain});
  EXPECT_TRUE(ReceiveQueues::has_receive(target.qp)) << "only a request tells from which queue";
  post(second, 1);
  ASSERT_EQ(receives.choose(target.qp, first.srq.number), Verdict::kOk);
  EXPECT_EQ(receives.draw(target.qp), shm::Take::kEmpty);
  ASSERT_EQ(receives.choose(target.qp, second.srq.number), Verdict::kOk);
  EXPECT_EQ(receives.draw(target.qp), shm::Take::kTaken);
  receives.complete(target.qp, {});
  const auto done = cq.poll();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->source, second.srq.number);
}

/// A message broke off after it had drawn: what it drew is flushed before another queue serves.
TEST_F(Receives, ChoosingAnotherQueueFlushesWhatWasDrawn) {
  TestSrq& first = make_srq(kDomain);
  TestSrq& second = make_srq(kDomain);
  TestQp& target = make_qp({.type = QpType::kXrcReceive, .xrc_domain = kDomain});
  post(first, 1);
  ASSERT_EQ(receives.choose(target.qp, first.srq.number), Verdict::kOk);
  ASSERT_EQ(receives.draw(target.qp), shm::Take::kTaken);
  ASSERT_EQ(receives.choose(target.qp, second.srq.number), Verdict::kOk);
  const auto done = cq.poll();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, abi::CompletionStatus::kFlushError);
  EXPECT_EQ(done->source, first.srq.number);
}

TEST_F(Receives, QueueThatGoesTakesTheDrawnReceiveOfXrcTargetsAlong) {
  TestSrq& srq = make_srq(kDomain);
  TestQp& target = make_qp({.type = QpType::kXrcReceive, .xrc_domain = kDomain});
  post(srq, 1);
  ASSERT_EQ(receives.choose(target.qp, srq.srq.number), Verdict::kOk);
  ASSERT_EQ(receives.draw(target.qp), shm::Take::kTaken);
  const std::uint64_t before = cpu.done();
  receives.retire(srq.srq);
  std::uint32_t slot = 0;
  while (!receives.drop_retired(session, slot)) {
  }
  receives.remove(srq.srq);
  EXPECT_GE(cpu.done() - before, queue_pairs.slots() * kSweepCost);
  EXPECT_EQ(target.qp.srq, nullptr);
  EXPECT_FALSE(target.qp.rq.drawn);
  receives.complete(target.qp, {});
  EXPECT_FALSE(cq.poll());
  EXPECT_EQ(receives.find_xrc(target.qp, srq.srq.number), nullptr);
}

TEST_F(Receives, QueueFailsTwice_ItsProgramIsToldOnce) {
  TestSrq& srq = make_srq(kDomain);
  for (int i = 0; i < 2; ++i) receives.fail(srq.srq);
  EXPECT_TRUE(srq.srq.failed);
  EXPECT_EQ(sink.count(EventType::kSrqError, srq.srq.user_handle), 1u);
}

}  // namespace
}  // namespace softhca::engine
