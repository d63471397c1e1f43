// SPDX-License-Identifier: Apache-2.0

// Queue pairs with peers that are not ready: they hold nothing that others need, and lose nothing.
#include <algorithm>
#include <map>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using Post = Process::Way;

class Stall : public BothWays {
 protected:
  static constexpr std::uint32_t kRing = 16;

  static EngineLimits many_queue_pairs() {
    EngineLimits limits = Adapter::small_limits();
    limits.queue_pairs = 256;
    return limits;
  }
  Stall() : pair(GetParam(), {}, many_queue_pairs()) {
    send_cq = &a.make_cq(2048);
    receive_cq = &b.make_cq(2048);
    words = &a.make_buffer(8 * kRing);
    for (std::uint32_t i = 0; i < kRing; ++i) words->words[i] = i;
    landed = &b.make_buffer(8 * kRing);
  }
  ~Stall() { pair.expect_idle(); }

  struct Ends {
    TestQp* near;
    TestQp* far;
  };
  Ends make(const Connection& connection = {}) {
    const QpOptions options{.send_entries = kRing, .receive_entries = kRing};
    const Ends ends{&a.make_qp(*send_cq, *send_cq, options),
                    &b.make_qp(*receive_cq, *receive_cq, options)};
    connect(a, *ends.near, b, *ends.far, connection);
    return ends;
  }
  /// A send queue full of numbered sends that find no receive.
  void fill(TestQp& qp, Post way) {
    for (std::uint32_t i = 0; i < kRing; ++i) a.post(qp, {.sge = {words->part(8 * i, 8)}}, way);
    EXPECT_TRUE(pair.run_until([&] {
      return a.header().doorbell_consumer.load() == a.header().doorbell_producer.load();
    }));
  }
  void post_receives(TestQp& qp) {
    for (std::uint32_t i = 0; i < kRing; ++i) b.post_receive(qp, {landed->part(8 * i, 8)});
  }
  /// Completions of `count` commands of one queue pair, in order from `index` on.
  void expect_done(TestQp& qp, std::uint32_t count, std::uint32_t index = 0,
                   Status status = Status::kSuccess) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto done = pair.wait(*send_cq);
      ASSERT_TRUE(done) << i;
      EXPECT_EQ(done->qpn, qp.qp.qpn.value);
      EXPECT_EQ(done->index, index + i);
      EXPECT_EQ(done->status, status) << i;
    }
    EXPECT_TRUE(send_cq->poll_all().empty());
  }
  void expect_landed() {
    EXPECT_TRUE(std::equal(words->words.begin(), words->words.end(), landed->words.begin()));
    std::fill(landed->words.begin(), landed->words.end(), 99);
  }
  std::uint64_t dedicated_in_use() const {
    return a.adapter.engine.pcbs().group(a.tenant.qos_class).dedicated_in_use.value();
  }
  /// Waits for a peer that is not there yet.
  Connection late_peer() const {
    return local() ? Connection{.timeout = 0}
                   : Connection{.timeout = 14, .retry_count = 7};  // 67 ms
  }
  void let_stall(Duration time = std::chrono::milliseconds(2)) {
    pair.run_for(time);
    EXPECT_TRUE(send_cq->poll_all().empty());
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  TestCq* send_cq = nullptr;
  TestCq* receive_cq = nullptr;
  Buffer* words = nullptr;
  Buffer* landed = nullptr;
};

/// More of them than the tenant has dedicated PCBs, or credits: another queue pair goes on,
/// whichever way its commands come, and each of them when it may.
TEST_P(Stall, NobodyWaitsForQueuePairsWhoseReceiverIsNotReady) {
  std::vector<Ends> stalled;
  for (int i = 0; i < 80; ++i) {
    stalled.push_back(make());
    fill(*stalled.back().near, i % 2 == 0 ? Post::kDoorbell : Post::kVcb);
  }
  let_stall();
  const Ends other = make();
  for (const auto way : {Post::kDoorbell, Post::kVcb, Post::kDoorbell}) {
    post_receives(*other.far);
    const std::uint32_t first = other.near->sequence;
    fill(*other.near, way);
    expect_done(*other.near, kRing, first);
    expect_landed();
  }
  for (const Ends& ends : stalled) {
    post_receives(*ends.far);
    expect_done(*ends.near, kRing);
    expect_landed();
  }
  const TenantCounters& counters = a.tenant.counters;
  EXPECT_GT(counters.commands_given_back.value(), 0u);
  EXPECT_EQ(counters.commands_vcb.value() + counters.commands_doorbell.value(), 83u * kRing)
      << "one that comes again is counted once";
  EXPECT_EQ(receive_cq->poll_all().size(), 83u * kRing);
}

TEST_P(Stall, AStalledQueuePairHoldsNothing) {
  const Ends ends = make({.min_rnr_timer = 20});  // 10 ms
  fill(*ends.near, Post::kDoorbell);
  let_stall();
  EXPECT_EQ(dedicated_in_use(), 0u);
  EXPECT_EQ(ends.near->qp.sq.commands, 0u);
  post_receives(*ends.far);
  expect_done(*ends.near, kRing);
  expect_landed();
}

/// Commands after the refused message are executed once, and after it.
TEST_P(Stall, EverythingBehindItHappensOnce) {
  const Ends ends = make();
  Buffer& counter = b.make_buffer(8);
  Buffer& results = a.make_buffer(8 * 4);
  a.post(*ends.near, {.sge = {words->part(8, 8)}});
  for (int i = 0; i < 3; ++i)
    a.post(*ends.near, {.opcode = abi::Opcode::kFetchAdd,
                        .sge = {results.part(8u * i, 8)},
                        .remote_addr = counter.addr(),
                        .rkey = counter.key,
                        .compare_add = 1});
  a.post(*ends.near, {.opcode = abi::Opcode::kRdmaRead,
                      .sge = {results.part(24, 8)},
                      .remote_addr = counter.addr(),
                      .rkey = counter.key});
  let_stall();
  EXPECT_EQ(counter.words[0], 0u);
  post_receives(*ends.far);
  expect_done(*ends.near, 5);
  EXPECT_EQ(results.words, (decltype(results.words){0, 1, 2, 3}));
  EXPECT_EQ(counter.words[0], 3u);
}

/// The receiver has taken all but the last packet of the write that stalls.
TEST_P(Stall, AWriteWithImmediateOfManyPackets) {
  const Ends ends = make();
  Buffer& from = a.make_buffer(5000);
  Buffer& to = b.make_buffer(5000);
  from.fill(3);
  for (int i = 0; i < 2; ++i) {
    a.post(*ends.near, {.opcode = abi::Opcode::kRdmaWriteWithImm,
                        .sge = {from.all()},
                        .imm = 5,
                        .remote_addr = to.addr(),
                        .rkey = to.key});
    let_stall();
    b.post_receive(*ends.far, {});
    expect_done(*ends.near, 1, static_cast<std::uint32_t>(i));
    EXPECT_EQ(pair.wait_status(*receive_cq), Status::kSuccess);
    EXPECT_TRUE(from.equals(to));
  }
}

TEST_P(Stall, RetriesEndAsTheyWould) {
  const Ends ends = make({.rnr_retry = 3});
  fill(*ends.near, Post::kDoorbell);
  const auto first = pair.wait(*send_cq);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, Status::kRnrRetryExceededError);
  EXPECT_EQ(first->index, 0u);
  expect_done(*ends.near, kRing - 1, 1, Status::kFlushError);
}

TEST_P(Stall, AnErrorFlushesWhatWasGivenBack) {
  const Ends ends = make();
  fill(*ends.near, Post::kVcb);
  let_stall();
  a.adapter.engine.queue_pairs().enter_error(ends.near->qp);
  expect_done(*ends.near, kRing, 0, Status::kFlushError);
}

TEST_P(Stall, AResetForgetsIt) {
  const Ends ends = make();
  fill(*ends.near, Post::kDoorbell);
  let_stall();
  a.reset(*ends.near);
  b.reset(*ends.far);
  connect(a, *ends.near, b, *ends.far);
  post_receives(*ends.far);
  pair.run_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(receive_cq->poll_all().empty());
  fill(*ends.near, Post::kDoorbell);
  expect_done(*ends.near, kRing, kRing);
  expect_landed();
}

/// The peer of an unanswered connection comes late; without a timeout that may take for ever, but
/// on the wire nothing is sent again then.
TEST_P(Stall, NobodyWaitsForQueuePairsWhosePeerIsNotThere) {
  std::vector<Ends> stalled;
  for (int i = 0; i < 80; ++i) {
    stalled.push_back(make(late_peer()));
    b.reset(*stalled.back().far);
    fill(*stalled.back().near, Post::kDoorbell);
  }
  let_stall(std::chrono::milliseconds(local() ? 2 : 200));
  const Ends other = make();
  post_receives(*other.far);
  fill(*other.near, Post::kDoorbell);
  expect_done(*other.near, kRing);
  expect_landed();
  for (const Ends& ends : stalled)
    bring_up(b, *ends.far, ends.near->qp.qpn, a.tenant.addresses[0].gid);
  for (const Ends& ends : stalled) {
    post_receives(*ends.far);
    expect_done(*ends.near, kRing);
    expect_landed();
  }
}

/// A peer that is gone costs all retries, and then what waits for it is flushed.
TEST_P(Stall, APeerThatIsGoneIsGivenUp) {
  std::vector<Ends> stalled;
  for (int i = 0; i < 80; ++i) {
    stalled.push_back(make());
    b.reset(*stalled.back().far);
    fill(*stalled.back().near, Post::kDoorbell);
  }
  std::map<std::uint32_t, std::vector<Status>> ends;
  for (std::size_t i = 0; i < stalled.size() * kRing; ++i) {
    const auto done = pair.wait(*send_cq);
    ASSERT_TRUE(done) << i;
    ends[done->qpn].push_back(done->status);
  }
  for (const auto& [qpn, statuses] : ends) {
    EXPECT_EQ(statuses.front(), Status::kRetryExceededError);
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), Status::kFlushError), kRing - 1);
  }
}

/// It was not for want of a receive, and one-sided programs post none.
TEST_P(Stall, AOneSidedCommandNeedsNothingButItsPeer) {
  const Ends ends = make(late_peer());
  b.reset(*ends.far);
  a.post(*ends.near, {.opcode = abi::Opcode::kRdmaWrite,
                      .sge = {words->all()},
                      .remote_addr = landed->addr(),
                      .rkey = landed->key});
  let_stall(std::chrono::milliseconds(local() ? 2 : 200));
  bring_up(b, *ends.far, ends.near->qp.qpn, a.tenant.addresses[0].gid);
  expect_done(*ends.near, 1);
  expect_landed();
}

/// A command that is put back as it has to wait for those before it goes on in SQD.
TEST_P(Stall, WhatHasBegunGoesOnWhileDraining) {
  const Ends ends = make();
  Buffer& opened = a.make_buffer(64, Process::kFull | memory::kBindWindow);
  const std::uint32_t window = (*a.adapter.engine.memory().windows().insert(a.pd, false))->key;
  a.post(*ends.near, {.sge = {words->part(8, 8)}}, Post::kVcb);
  a.post(*ends.near,
         {.opcode = abi::Opcode::kBindWindow,
          .imm = memory::kRemoteWrite,
          .remote_addr = opened.addr(),
          .rkey = window ^ 1,
          .compare_add = 64,
          .swap = opened.key},
         Post::kVcb);
  EXPECT_TRUE(pair.run_until([&] { return !ends.near->qp.sq.held.empty(); }));
  a.adapter.engine.queue_pairs().enter_drain(ends.near->qp, true);
  b.post_receive(*ends.far, {landed->part(8, 8)});
  expect_done(*ends.near, 2);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, ends.near->qp.user_handle), 1u);
}

/// The rate limit charges a message once, although the engine gives its command back and fetches it
/// again.
TEST_P(Stall, ARateIsChargedForWhatGoes) {
  a.adapter.engine.rates().set(a.tenant.rate,
                               {.messages_per_second = 1000, .burst_messages = 2 * kRing});
  const Ends ends = make();
  fill(*ends.near, Post::kDoorbell);
  pair.run_for(std::chrono::milliseconds(20));  // many tries
  EXPECT_FALSE(a.tenant.rate.closed());
  post_receives(*ends.far);
  expect_done(*ends.near, kRing);
  const Ends other = make();
  post_receives(*other.far);
  fill(*other.near, Post::kDoorbell);
  expect_done(*other.near, kRing);
}

/// What is posted to a queue pair in SQD waits in the send queue.
TEST_P(Stall, NobodyWaitsForQueuePairsThatAreDrained) {
  std::vector<Ends> drained;
  for (int i = 0; i < 80; ++i) {
    drained.push_back(make());
    a.adapter.engine.queue_pairs().enter_drain(drained.back().near->qp, true);
    fill(*drained.back().near, i % 2 == 0 ? Post::kDoorbell : Post::kVcb);
    post_receives(*drained.back().far);
  }
  let_stall();
  EXPECT_EQ(dedicated_in_use(), 0u);
  const Ends other = make();
  post_receives(*other.far);
  fill(*other.near, Post::kDoorbell);
  expect_done(*other.near, kRing);
  expect_landed();
  for (const Ends& ends : drained) {
    EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, ends.near->qp.user_handle), 1u);
    a.adapter.engine.queue_pairs().enter_ready_to_send(ends.near->qp, Psn());
    expect_done(*ends.near, kRing);
    expect_landed();
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Stall, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
