// SPDX-License-Identifier: Apache-2.0

// Moderation of completion events, in virtual time.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;

constexpr int kModeratedChannel = 5;

class Moderation : public ::testing::Test {
 protected:
  Moderation() {
    pair.cb = &b.make_cq(64, kModeratedChannel);
    pair.connect_pair();
  }

  void moderate(std::uint32_t count, Duration period) {
    b.adapter.engine.completion_queues().set_moderation(pair.cb->cq, count, period);
  }
  void arm() { pair.cb->arm(abi::kArmAny); }
  void message() {
    b.post_receive(*pair.qb, {});
    pair.a->post(*pair.qa, {});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  }
  std::size_t events() { return pair.sink_of(b).completions.size(); }

  Pair pair{Way::kLocal};
  Process& b = *pair.b;
};

TEST_F(Moderation, EventComesAfterSoManyCompletions) {
  moderate(3, microseconds(50000));
  arm();
  message();
  message();
  EXPECT_EQ(events(), 0u);
  message();
  EXPECT_EQ(events(), 1u);
  // The next ones are counted anew.
  arm();
  message();
  message();
  EXPECT_EQ(events(), 1u);
  message();
  EXPECT_EQ(events(), 2u);
}

TEST_F(Moderation, EventComesSoLongAfterTheFirst) {
  moderate(100, microseconds(50000));
  arm();
  message();
  pair.run_for(microseconds(30000));
  message();
  EXPECT_EQ(events(), 0u);
  pair.run_for(microseconds(19000));
  EXPECT_EQ(events(), 0u);
  pair.run_for(microseconds(2000));
  EXPECT_EQ(events(), 1u);
  pair.run_for(microseconds(200000));
  EXPECT_EQ(events(), 1u);
}

/// An engine that sleeps must wake for it.
TEST_F(Moderation, ItsEndIsADeadline) {
  moderate(100, microseconds(700));
  arm();
  message();
  EXPECT_LE(b.adapter.engine.next_deadline(), pair.now + microseconds(700));
}

TEST_F(Moderation, EitherZeroIsOff) {
  for (const auto& [count, period] : {std::pair(0u, 50000), std::pair(3u, 0)}) {
    moderate(count, microseconds(period));
    arm();
    const std::size_t before = events();
    message();
    EXPECT_EQ(events(), before + 1);
  }
}

TEST_F(Moderation, ChangeTellsWhatIsHeldBack) {
  moderate(100, microseconds(50000));
  arm();
  message();
  EXPECT_EQ(events(), 0u);
  moderate(0, {});
  EXPECT_EQ(events(), 1u);
  pair.run_for(microseconds(200000));
  EXPECT_EQ(events(), 1u);
}

TEST_F(Moderation, NobodyIsToldWhoDidNotAsk) {
  moderate(2, microseconds(500));
  message();
  message();
  message();
  pair.run_for(microseconds(2000));
  EXPECT_EQ(events(), 0u);
  arm();
  message();
  message();
  EXPECT_EQ(events(), 1u);
}

TEST_F(Moderation, QueueGoesWhileItIsHeldBack) {
  moderate(100, microseconds(500));
  arm();
  message();
  b.end();
  pair.run_for(microseconds(2000));
  EXPECT_EQ(events(), 0u);
}

/// However many are due at once, a step tells of a few.
TEST(ModerationOfMany, IsTurnedToInSteps) {
  constexpr std::size_t kQueues = 200;
  EngineLimits limits = Adapter::small_limits();
  limits.queue_pairs = 256;
  Pair pair{Way::kLocal, {}, limits};
  Process& b = *pair.b;
  for (std::size_t i = 0; i < kQueues; ++i) {
    TestCq& cq = b.make_cq(4, kModeratedChannel);
    b.adapter.engine.completion_queues().set_moderation(cq.cq, 100, microseconds(50000));
    cq.arm(abi::kArmAny);
    TestQp& qp = b.make_qp(*pair.cb, cq);
    bring_up(b, qp, Qpn(77), address(1));
    b.post_receive(qp, {});
    b.adapter.engine.queue_pairs().enter_error(qp.qp);
  }
  pair.steps(100);
  const auto& events = pair.sink_of(b).completions;
  EXPECT_EQ(events.size(), 0u);
  pair.step(microseconds(100000));
  EXPECT_EQ(events.size(), 64u);
  pair.steps(3);
  EXPECT_EQ(events.size(), kQueues);
}

}  // namespace
}  // namespace softhca::engine
