// Completion and asynchronous events by themselves, without an engine.
#include "daemon/engine/completion_events.hpp"

#include "tests/unit/engine/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

constexpr int kChannel = 7;

class EventParts : public ::testing::Test {
 protected:
  EventParts() { cpu.order().join(QosClassId(0), TenantId(0)); }
  TestCq make_cq(std::uint64_t handle, std::uint32_t entries = 64) {
    return TestCq(session, entries, handle, kChannel);
  }
  void push(TestCq& cq) { completions.push(cq.cq, {}, false); }
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
  AsyncEvents async{sink, clock};
  CpuScheduler cpu{clock, 64, 1, 1};
  CompletionEvents completions{sink, async, clock, cpu};
};

TEST_F(EventParts, OneEventPerStepForWhoAsked) {
  TestCq cq = make_cq(1), silent = make_cq(2);
  cq.arm(abi::kArmAny, 1);
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
  EXPECT_EQ(completions.take_overflowed(), &cq.cq);
  EXPECT_EQ(completions.take_overflowed(), nullptr);
  EXPECT_TRUE(cq.cq.failed);
  EXPECT_EQ(cq.poll_all().size(), 2u);
}

TEST_F(EventParts, FullChannelsAreTriedInTurnEverLater) {
  std::vector<TestCq> cqs;
  cqs.reserve(100);
  for (std::uint64_t i = 0; i < 100; ++i) {
    cqs.push_back(make_cq(i));
    cqs.back().arm(abi::kArmAny, 1);
    push(cqs.back());
  }
  sink.full = true;
  step();
  sink.attempts = 0;
  for (int i = 0; i < 1000; ++i) step(milliseconds(1));
  EXPECT_LE(sink.attempts, 25 * CompletionEvents::kPerStep);
  sink.full = false;
  step(EventRetry::kLongest);
  EXPECT_EQ(sink.completions.size(), CompletionEvents::kPerStep);
  step(EventRetry::kFirst);
  EXPECT_EQ(sink.completions.size(), 100u);
  EXPECT_EQ(completions.next_deadline(), kNever);
}

TEST_F(EventParts, TimersOfModerationAreUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    TestCq cq = make_cq(1);
    completions.set_moderation(cq.cq, 10, milliseconds(5));
    EXPECT_EQ(cq.cq.moderation_timer, 0u);
    cq.arm(abi::kArmAny, 1);
    push(cq);
    step();
    EXPECT_LE(completions.next_deadline(), clock.now + milliseconds(5));
    completions.remove(cq.cq);
  }
  step(milliseconds(10));
  EXPECT_TRUE(sink.completions.empty());
}

/// Whatever list it stands in, a queue that goes leaves nothing behind.
TEST_F(EventParts, QueueGoesInEveryState) {
  for (const bool moderated : {false, true})
    for (const bool full : {false, true})
      for (const bool overflows : {false, true})
        for (const Duration passed : {milliseconds(0), milliseconds(10)}) {
          TestCq cq = make_cq(1, 2);
          if (moderated) completions.set_moderation(cq.cq, 10, milliseconds(5));
          sink.full = full;
          cq.arm(abi::kArmAny, 1);
          for (int i = 0; i < (overflows ? 3 : 1); ++i) push(cq);
          step();
          clock.now += passed;
          completions.remove(cq.cq);
          async.forget(session);
          session.events_deferred = 0;
          EXPECT_FALSE(completions.any_overflowed());
          sink.full = false;
          sink.attempts = 0;
          step(milliseconds(100));
          EXPECT_EQ(sink.attempts, 0u);
        }
}

TEST_F(EventParts, AsynchronousEventsOfAnObjectThatGoesAreForgotten) {
  sink.full = true;
  async.raise(session, 1, EventType::kQpFatal);
  async.raise(session, 2, EventType::kQpFatal);
  async.raise(session, 1, EventType::kQpAccessError);
  async.forget(session, 1);
  EXPECT_EQ(session.events_deferred, 1u);
  sink.full = false;
  step(milliseconds(1));
  ASSERT_EQ(sink.async.size(), 1u);
  EXPECT_EQ(sink.async[0].element, 2u);
  EXPECT_EQ(async.next_deadline(), kNever);
}

}  // namespace
}  // namespace softhca::engine
