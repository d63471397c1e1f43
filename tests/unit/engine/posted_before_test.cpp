// SPDX-License-Identifier: Apache-2.0

// Commands posted just before their queue pair changes its state or goes: they are sent first,
// once.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class PostedBefore : public BothWays {
 protected:
  using Post = Process::Way;
  static constexpr std::uint32_t kCount = 16;
  static constexpr unsigned kSteps = 64;  // as the control thread grants at least

  PostedBefore() : pair(GetParam()) {
    pair.connect_pair({}, {.send_entries = kCount, .receive_entries = kCount});
    from = &a.make_buffer(8 * kCount);
    to = &b.make_buffer(8 * kCount);
    settle();
  }
  ~PostedBefore() { pair.expect_idle(); }

  QpLifecycle& lifecycle() { return a.adapter.engine.queue_pairs(); }
  QueuePair& qp() { return pair.qa->qp; }
  void settle() { pair.run_for(std::chrono::milliseconds(1)); }
  void post(std::uint32_t count, Post way) {
    for (std::uint32_t i = 0; i < count; ++i)
      a.post(*pair.qa, {.sge = {from->part(8 * i, 8)}, .imm = i}, way);
  }
  void post_receives(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) b.post_receive(*pair.qb, {to->part(8 * i, 8)});
  }
  /// As the control thread does it. False: not all is sent in time.
  bool wait_until_sent() {
    a.adapter.engine.intake().announce(qp(), pair.qa->sequence);
    for (unsigned i = 0; i < kSteps; ++i) {
      if (lifecycle().has_sent(qp(), pair.qa->sequence)) return true;
      pair.step();
    }
    return false;
  }
  std::uint32_t received() {
    settle();
    std::uint32_t count = 0;
    while (const auto done = pair.cb->poll()) count += done->status == Status::kSuccess;
    return count;
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* from;
  Buffer* to;
};

TEST_P(PostedBefore, Error_CommandsOfEitherWay_ArriveOnce) {
  for (const Post way : {Post::kVcb, Post::kDoorbell}) {
    post_receives(3);
    post(3, way);
    ASSERT_TRUE(wait_until_sent());
    lifecycle().enter_error(qp());
    EXPECT_EQ(received(), 3u);
    a.reset(*pair.qa);
    b.reset(*pair.qb);
    connect(a, *pair.qa, b, *pair.qb);
    EXPECT_EQ(received(), 0u) << "sent again";
  }
  EXPECT_EQ(a.tenant.counters.refused.hostile_memory.value(), 0u);
}

TEST_P(PostedBefore, Error_NothingWasAnnouncedYet_CommandsArrive) {
  post_receives(3);
  for (std::uint32_t i = 0; i < 3; ++i) a.write_command(*pair.qa, {.sge = {from->part(0, 8)}});
  ASSERT_TRUE(wait_until_sent());
  lifecycle().enter_error(qp());
  EXPECT_EQ(received(), 3u);
}

TEST_P(PostedBefore, Error_WholeSendQueue_Arrives) {
  post_receives(kCount);
  post(kCount, Post::kDoorbell);
  ASSERT_TRUE(wait_until_sent());
  lifecycle().enter_error(qp());
  EXPECT_EQ(received(), kCount);
}

TEST_P(PostedBefore, Drain_Commands_Complete) {
  post_receives(3);
  post(3, Post::kVcb);
  ASSERT_TRUE(wait_until_sent());
  lifecycle().enter_drain(qp(), true);
  EXPECT_EQ(received(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, qp().user_handle), 1u);
}

TEST_P(PostedBefore, Removal_Commands_Arrive) {
  post_receives(2);
  post(2, Post::kVcb);
  ASSERT_TRUE(wait_until_sent());
  a.destroy(*pair.qa);
  EXPECT_EQ(received(), 2u);
}

TEST_P(PostedBefore, Error_PeerHasNoReceive_DoesNotWait) {
  post(2, Post::kVcb);
  a.adapter.engine.intake().announce(qp(), pair.qa->sequence);
  EXPECT_TRUE(pair.run_until([&] { return lifecycle().has_sent(qp(), pair.qa->sequence); },
                             std::chrono::milliseconds(1)));
  lifecycle().enter_error(qp());
  EXPECT_EQ(received(), 0u);
}

/// A rate of the sender lets them go one after the other.
TEST_P(PostedBefore, Error_RateHoldsThemBack_WaitsForTheirTurn) {
  a.adapter.engine.rates().set(a.tenant.rate, {.messages_per_second = 10'000, .burst_messages = 1});
  post_receives(4);
  post(4, Post::kVcb);
  a.adapter.engine.intake().announce(qp(), pair.qa->sequence);
  pair.step();
  EXPECT_FALSE(lifecycle().has_sent(qp(), pair.qa->sequence));
  EXPECT_TRUE(pair.run_until([&] { return lifecycle().has_sent(qp(), pair.qa->sequence); },
                             std::chrono::milliseconds(1)));
  lifecycle().enter_error(qp());
  EXPECT_EQ(received(), 4u);
}

TEST_P(PostedBefore, Announcement_BeyondTheSendQueue_CostsTheQueuePair) {
  a.adapter.engine.intake().announce(qp(), pair.qa->sequence + kCount + 1);
  EXPECT_TRUE(lifecycle().has_sent(qp(), pair.qa->sequence + kCount + 1)) << "nothing to wait for";
  settle();
  EXPECT_EQ(qp().state, QpState::kError);
  EXPECT_EQ(a.tenant.counters.refused.hostile_memory.value(), 1u);
}

INSTANTIATE_TEST_SUITE_P(, PostedBefore, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
