// SPDX-License-Identifier: Apache-2.0

// Completion and asynchronous events by themselves, without an engine.
#include "daemon/engine/receive/completion_queues.hpp"

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kChannel = 7;

class EventParts : public ::testing::Test {
 protected:
  EventParts() {
    cpu.order().join(QosClassId(0), TenantId(0));
    cpu.order().join(QosClassId(1), TenantId(1));
  }
  TestCq make_cq(std::uint64_t handle, std::uint32_t entries = 64) {
    return TestCq(session, entries, handle, kChannel);
  }
  void push(TestCq& cq, std::uint32_t under_way = 0) {
    shm::Completion completion;
    completions.push(cq.cq, completion, false, under_way);
  }
  /// Another tenant has work, too: for a while to come.
  void compete() {
    QueuePair one, other;
    other.slot = 1;
    other.qos_class = QosClassId(1);
    cpu.make_ready(one);
    cpu.make_ready(other);
    for (int i = 0; i < 1000; ++i) cpu.note_competition(one.qos_class, cpu.order(), true);
    cpu.remove(one);
    cpu.remove(other);
    cpu.choose_budget();
  }
  void end_competition() {
    clock.now += milliseconds(100);
    cpu.choose_budget();
  }
  void step(Duration passed = {}) {
    clock.now += passed;
    completions.deliver();
    if (clock.now >= async.next_deadline()) async.retry();
  }

  Tenant tenant;
  RingMemory memory{sizeof(abi::SessionHeader)};
  Session session{SessionId(1), tenant, shm::SessionView(memory.base(), 0), VcbId(0)};
  RecordingSink sink;
  StepClock clock{Time(milliseconds(1000))};
  AsyncEvents async{sink, clock, cpu, 4};
  CpuScheduler cpu{clock, 64, 2, 2};
  CompletionQueues completions{sink, async, clock, cpu};
};

TEST_F(EventParts, OneEventPerStepForWhoAsked) {
  TestCq cq = make_cq(1), silent = make_cq(2);
  cq.arm(abi::kArmAny);
  push(cq);
  push(cq);
  push(silent);
  EXPECT_TRUE(sink.completions.empty());
  step();
  ASSERT_EQ(sink.completions.size(), 1u);
  EXPECT_EQ(sink.completions[0], std::pair(kChannel, std::uint64_t{1}));
  EXPECT_EQ(cq.poll_all().size(), 2u);
}

TEST_F(EventParts, OverflowIsToldOnceAndStays) {
  TestCq cq = make_cq(1, 2);
  for (int i = 0; i < 4; ++i) push(cq);
  EXPECT_EQ(sink.count(EventType::kCqError, 1), 1u);
  EXPECT_EQ(cpu.failing.front(), &session) << "is looked through";
  EXPECT_TRUE(cq.cq.failed);
  EXPECT_EQ(cq.poll_all().size(), 2u);
}

TEST_F(EventParts, FullChannelsAreTriedInTurnEverLater) {
  std::vector<TestCq> cqs;
  cqs.reserve(100);
  for (std::uint64_t i = 0; i < 100; ++i) {
    cqs.push_back(make_cq(i));
    cqs.back().arm(abi::kArmAny);
    push(cqs.back());
  }
  sink.full = true;
  step();
  sink.attempts = 0;
  for (int i = 0; i < 1000; ++i) step(milliseconds(1));
  EXPECT_LE(sink.attempts, 25 * CompletionQueues::kPerStep);
  sink.full = false;
  step(EventRetry::kLongest);
  EXPECT_EQ(sink.completions.size(), CompletionQueues::kPerStep);
  step(EventRetry::kFirst);
  EXPECT_EQ(sink.completions.size(), 100u);
  EXPECT_EQ(completions.next_deadline(), kNever);
}

TEST_F(EventParts, TimersOfModerationAreUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    TestCq cq = make_cq(1);
    completions.set_moderation(cq.cq, 10, milliseconds(5));
    EXPECT_EQ(cq.cq.moderation_timer, 0u);
    cq.arm(abi::kArmAny);
    push(cq);
    step();
    EXPECT_LE(completions.next_deadline(), clock.now + milliseconds(5));
    completions.remove(cq.cq);
  }
  step(milliseconds(10));
  EXPECT_TRUE(sink.completions.empty());
}

TEST_F(EventParts, WhereTenantsCompeteFrequentEventsGoByTheNotifier) {
  EventNotifier notifier(sink, cpu.classes());
  completions.notify_by(&notifier);
  TestCq seldom = make_cq(1), often = make_cq(2), alone = make_cq(3);
  for (TestCq* cq : {&seldom, &often, &alone}) cq->arm(abi::kArmAny);
  compete();
  push(seldom);
  step();
  EXPECT_EQ(sink.completions.size(), 1u) << "the first for some time";
  push(often);
  step(microseconds(10));
  EXPECT_EQ(sink.completions.size(), 1u);
  EXPECT_LE(completions.next_deadline(), clock.now + EventNotifier::kInterval);
  // It is asked for the next before the first is known to have gone.
  often.arm(abi::kArmAny);
  push(often);
  step();
  notifier.start(std::nullopt);
  for (int i = 0; sink.completions.size() < 3 && i < 20'000; ++i) {
    step(microseconds(10));
    std::this_thread::sleep_for(microseconds(500));
    if (notifier.busy()) continue;
  }
  ASSERT_EQ(sink.completions.size(), 3u);
  EXPECT_EQ(sink.completions[1].second, 2u);
  EXPECT_EQ(sink.completions[2].second, 2u);
  notifier.stop();
  end_competition();
  push(alone);
  step();
  EXPECT_EQ(sink.completions.size(), 4u) << "nobody competes";
  completions.notify_by(nullptr);
}

TEST_F(EventParts, AFullChannelIsTriedAgainByTheNotifier) {
  EventNotifier notifier(sink, cpu.classes());
  completions.notify_by(&notifier);
  compete();
  std::vector<TestCq> cqs;
  cqs.reserve(4);
  sink.full = true;
  for (std::uint64_t i = 0; i < 4; ++i) {
    cqs.push_back(make_cq(i));
    cqs.back().arm(abi::kArmAny);
    push(cqs.back());
    step();
  }
  // The first, which is the engine's, is refused; the others are with the notifier.
  EXPECT_EQ(sink.attempts, 1u);
  notifier.start(std::nullopt);
  const auto await = [&](auto&& holds) {
    for (int i = 0; !holds() && i < 20'000; ++i) {
      std::this_thread::sleep_for(microseconds(200));
      step();
    }
    return holds();
  };
  EXPECT_TRUE(await([&] { return !notifier.busy(); }));
  EXPECT_EQ(sink.attempts, 4u);
  EXPECT_LE(completions.next_deadline(), clock.now + EventRetry::kFirst);
  sink.full = false;
  compete();
  step(EventRetry::kFirst);
  EXPECT_TRUE(await([&] { return !notifier.busy(); }));
  EXPECT_EQ(sink.completions.size(), 4u);
  step(EventRetry::kLongest);
  EXPECT_EQ(completions.next_deadline(), kNever);
  completions.notify_by(nullptr);
}

TEST_F(EventParts, AProgramWithMuchUnderWayIsToldOfManyAtOnce) {
  constexpr std::uint32_t kMany = CompletionQueues::kManyUnderWay;
  compete();
  TestCq cq = make_cq(1);
  const auto told = [&] {
    const std::size_t count = sink.completions.size();
    sink.completions.clear();
    cq.arm(abi::kArmAny);
    return count;
  };
  told();
  push(cq, kMany);
  step();
  push(cq, kMany);
  step(microseconds(100));
  EXPECT_EQ(told(), 0u);
  EXPECT_EQ(completions.next_deadline(), clock.now + CompletionQueues::kPace - microseconds(100));
  step(CompletionQueues::kPace);
  EXPECT_EQ(told(), 1u) << "not for ever";
  EXPECT_EQ(completions.next_deadline(), kNever);

  push(cq, kMany);
  step();
  push(cq, kMany - 1);
  step();
  EXPECT_EQ(told(), 1u) << "it may soon have nothing under way";

  shm::Completion failed;
  failed.status = abi::CompletionStatus::kFlushError;
  completions.push(cq.cq, failed, false, kMany);
  step();
  EXPECT_EQ(told(), 1u) << "an error";

  push(cq, kMany);
  step();
  EXPECT_EQ(told(), 0u);
  end_competition();
  step();
  EXPECT_EQ(told(), 1u) << "no tenant competes any more";
  push(cq, kMany);
  step();
  EXPECT_EQ(told(), 1u) << "nobody competes";
}

/// A queue that is removed leaves nothing in any of the lists that it can be in.
TEST_F(EventParts, QueueGoesInEveryState) {
  EventNotifier notifier(sink, cpu.classes());  // without its thread: what it has stays there
  completions.notify_by(&notifier);
  for (const std::uint32_t under_way : {0u, 100u})
    for (const bool competing : {false, true})
      for (const bool moderated : {false, true})
        for (const bool full : {false, true})
          for (const bool overflows : {false, true})
            for (const Duration passed : {milliseconds(0), milliseconds(10)}) {
              TestCq cq = make_cq(1, 2);
              if (moderated) completions.set_moderation(cq.cq, 10, milliseconds(5));
              sink.full = full;
              if (competing)
                compete();
              else
                end_competition();
              cq.arm(abi::kArmAny);
              for (int i = 0; i < (overflows ? 3 : 1); ++i) push(cq, under_way);
              step();
              clock.now += passed;
              completions.remove(cq.cq);
              async.forget(session);
              sink.full = false;
              sink.attempts = 0;
              step(milliseconds(100));
              EXPECT_EQ(sink.attempts, 0u);
            }
  completions.notify_by(nullptr);
}

TEST_F(EventParts, AsynchronousEventsOfAnObjectThatGoesAreForgotten) {
  sink.full = true;
  async.raise(session, 1, EventType::kQpFatal);
  async.raise(session, 2, EventType::kQpFatal);
  async.raise(session, 1, EventType::kQpAccessError);
  async.forget(session, 1);
  EXPECT_EQ(session.deferred.events.size(), 1u);
  sink.full = false;
  step(milliseconds(1));
  ASSERT_EQ(sink.async.size(), 1u);
  EXPECT_EQ(sink.async[0].element, 2u);
  EXPECT_EQ(async.next_deadline(), kNever);
}

}  // namespace
}  // namespace softhca::engine
