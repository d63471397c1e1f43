// SPDX-License-Identifier: Apache-2.0

// Commands that go back to their send queue, without an engine.
#include "daemon/engine/commands/qp_stall.hpp"

#include "tests/unit/engine/fixture/qp_parts.hpp"

namespace softhca::engine {
namespace {

/// Sends to a peer in this daemon that has a receive only when a test posts one.
class StallParts : public QpParts {
 protected:
  StallParts() { connect(near, peer, {.rnr_retry = 7}); }

  Work send() { return {.sge = {buffer.part(0, 8)}}; }
  /// All come in, and the first finds no receive.
  void send_in_vain(TestQp& test, int count = 1) {
    for (int i = 0; i < count; ++i) kick(test, send());
    execution.start_commands();
    deliver_in_vain(test);
  }
  bool has_turn() { return dispatch.fetch() != 0; }
  std::uint32_t next_sequence() { return scheduler.next_sequence(schedule::QpSlot(near.qp.slot)); }
  std::uint64_t given_back() const { return tenant.counters.commands_given_back.value(); }

  Buffer& buffer = make_buffer(64);
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
};

TEST_F(StallParts, AllThatAQueuePairHoldsIsForOthers) {
  send_in_vain(near, 3);
  EXPECT_EQ(pcbs_in_use(), 3u);
  EXPECT_EQ(tvls[tvl].completion.in_use.value(), 3u);
  stall.stall(near.qp);
  EXPECT_EQ(under_way(near), 0u);
  EXPECT_EQ(held_by(near), 0u);
  EXPECT_EQ(pcbs_in_use(), 0u);
  EXPECT_EQ(tvls[tvl].execution.in_use.value(), 0u);
  EXPECT_EQ(tvls[tvl].completion.in_use.value(), 0u);
  EXPECT_EQ(given_back(), 3u);
  expect_nothing();
}

TEST_F(StallParts, WhatWentBackIsPendingAndHasNoTurnUntilItMayGoOn) {
  send_in_vain(near, 3);
  stall.stall(near.qp);
  EXPECT_EQ(pending(near), 3u);
  EXPECT_EQ(next_sequence(), 0u);
  EXPECT_FALSE(has_turn());
  stall.resume(near.qp);
  EXPECT_TRUE(has_turn());
}

TEST_F(StallParts, ItGoesOnWithOneCommandUntilOneHasSucceeded) {
  send_in_vain(near, 3);
  stall.stall(near.qp);
  for (int i = 0; i < 3; ++i) post_receive(peer, buffer);
  clock.now += std::chrono::seconds(1);
  stall.resume(near.qp);
  EXPECT_EQ(dispatch.fetch(), 1u);
  execution.start_commands();
  EXPECT_FALSE(has_turn());
  deliver(near);
  EXPECT_EQ(dispatch.fetch(), 2u);
  execution.start_commands();
  deliver(near);
  std::vector<std::uint32_t> sent;
  for (const Completed& done : cq.poll_all())
    if (!done.is_receive) sent.push_back(done.index);
  EXPECT_EQ(sent, (std::vector<std::uint32_t>{0, 1, 2}));
}

/// They have been handed over once, and are again.
TEST_F(StallParts, WhatComesAgainIsCountedOnce) {
  send_in_vain(near, 2);
  stall.stall(near.qp);
  stall.resume(near.qp);
  dispatch.fetch();
  execution.start_commands();
  EXPECT_EQ(under_way(near), 1u);
  EXPECT_EQ(tenant.counters.commands_vcb.value(), 2u);
  EXPECT_EQ(tenant.counters.commands_doorbell.value(), 0u);
}

TEST_F(StallParts, WhatThePeerHasExecutedStaysDone) {
  post_receive(peer, buffer);
  send_in_vain(near, 3);
  stall.stall(near.qp);
  EXPECT_EQ(given_back(), 2u);
  EXPECT_EQ(next_sequence(), 1u);
  EXPECT_EQ(pending(near), 2u);
}

TEST_F(StallParts, WhatIsNotUnderWayGoesBackAloneIfThatIsAsked) {
  kick(near, send());
  kick(near, {.opcode = static_cast<abi::Opcode>(0x55)});  // held behind the first
  kick(near, send());
  execution.start_commands();
  kick(near, send());
  stall.give_back(near.qp, QpStall::Started::kNone);
  EXPECT_EQ(under_way(near), 1u);
  EXPECT_EQ(held_by(near), 1u);
  EXPECT_EQ(next_sequence(), 1u);
  EXPECT_EQ(pending(near), 3u);
  EXPECT_EQ(given_back(), 2u) << "the last had not got its credits";
}

TEST_F(StallParts, NothingToGiveBackRewindsNothing) {
  stall.give_back(near.qp, QpStall::Started::kAll);
  EXPECT_EQ(pending(near), 0u);
  EXPECT_FALSE(has_turn());
}

TEST_F(StallParts, TheMoreThereAreTheLongerEachWaits) {
  const Gauge& stalled = tenant.counters.stalled_queue_pairs;
  EXPECT_EQ(QpStall::least_wait(near.qp), Duration::zero());
  send_in_vain(near);
  stall.stall(near.qp);
  EXPECT_EQ(stalled.value(), 1u);
  const Duration alone = QpStall::least_wait(near.qp);
  EXPECT_GT(alone, Duration::zero());
  TestQp& other = make_qp();
  connect(other, make_qp(), {.rnr_retry = 7});
  send_in_vain(other);
  stall.stall(other.qp);
  EXPECT_EQ(QpStall::least_wait(near.qp), 2 * alone);
  stall.resume(near.qp);
  EXPECT_EQ(QpStall::least_wait(other.qp), alone);
  for (int i = 0; i < 2; ++i) stall.forget(other.qp);
  EXPECT_EQ(stalled.value(), 0u);
}

TEST_F(StallParts, QueuePairsThatAreResetOrFailAreNotCounted) {
  send_in_vain(near);
  stall.stall(near.qp);
  lifecycle.reset(near.qp, 0);
  EXPECT_EQ(tenant.counters.stalled_queue_pairs.value(), 0u);
  TestQp& other = make_qp();
  connect(other, make_qp(), {.rnr_retry = 7});
  send_in_vain(other);
  stall.stall(other.qp);
  lifecycle.enter_error(other.qp);
  EXPECT_EQ(tenant.counters.stalled_queue_pairs.value(), 0u);
}

/// The program may change a command before it comes again, which pays for what it is then.
TEST_F(StallParts, WhatGoesBackGetsItsRateBack) {
  rates.set(tenant.rate, {.bytes_per_second = 8, .burst_bytes = 16});
  send_in_vain(near, 2);
  kick(near, send());
  execution.start_commands();
  const Time before = tenant.rate.limiter.ready_at();
  stall.stall(near.qp);
  EXPECT_LT(tenant.rate.limiter.ready_at(), before);
  EXPECT_LE(tenant.rate.limiter.ready_at(), clock.now);
  rates.forget(tenant.rate);
}

TEST_F(StallParts, WhoWaitsForRoomInTheKickListHasIt) {
  commands.fetched(near.qp, kick(near, send()), near.qp.sq.tvl);
  commands.wait_for_room(near.qp, near.qp.sq.tvl);
  EXPECT_FALSE(commands.ahead().has_work());
  stall.give_back(near.qp, QpStall::Started::kNone);
  EXPECT_TRUE(commands.ahead().has_work());
  commands.end_waits();
  EXPECT_FALSE(commands.ahead().waits(schedule::QpSlot(near.qp.slot)));
}

}  // namespace
}  // namespace softhca::engine
