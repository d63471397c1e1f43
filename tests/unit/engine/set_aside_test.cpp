// SPDX-License-Identifier: Apache-2.0

// Suspended queue pairs: their peers are ready, but the next command cannot be sent yet. Commands
// on the wire stay there, and the others hold nothing that other queue pairs need.
#include <algorithm>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Post = Process::Way;

class Aside : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRing = 16;
  /// More commands than there are PCBs of both kinds.
  static constexpr int kMany = 24;
  /// A peer that says nothing for a second is not silent yet.
  static constexpr Connection kPatient{.timeout = 20};

  static EngineLimits many_queue_pairs() {
    EngineLimits limits = Adapter::small_limits();
    limits.queue_pairs = 256;
    return limits;
  }
  Aside() : pair(Way::kWire, {}, many_queue_pairs()) {
    cq = &a.make_cq(2048);
    far_cq = &b.make_cq(2048);
    near = &a.make_buffer(8 * kRing * (kMany + 1));
    far = &b.make_buffer(8 * kRing * (kMany + 1));
  }
  ~Aside() { pair.expect_idle(); }

  TestQp& make(const Connection& connection = kPatient) {
    const QpOptions options{.send_entries = kRing, .receive_entries = kRing};
    TestQp& qp = a.make_qp(*cq, *cq, options);
    peers.push_back(&b.make_qp(*far_cq, *far_cq, options));
    connect(a, qp, b, *peers.back(), connection);
    return qp;
  }
  Work transfer(abi::Opcode opcode, std::size_t word, bool fenced = false) {
    const auto flags = abi::kCommandSignaled | (fenced ? abi::kCommandFence : 0);
    return {.opcode = opcode,
            .flags = static_cast<std::uint8_t>(flags),
            .sge = {near->part(8 * word, 8)},
            .remote_addr = far->addr() + 8 * word,
            .rkey = far->key};
  }
  Work write(std::size_t word) { return transfer(abi::Opcode::kRdmaWrite, word); }
  /// The neighbour is known afterwards.
  void meet() {
    TestQp& qp = make();
    a.post(qp, write(0));
    expect_done(qp, 1);
  }
  /// The peer is there, and slow: nothing of it runs.
  void run_near(Duration time) {
    for (const Time end = pair.now + time; pair.now < end; pair.now += microseconds(1))
      a.adapter.engine.poll(pair.now);
  }
  std::uint64_t pcbs_in_use() const {
    const auto& group = a.adapter.engine.pcbs().group(a.tenant.qos_class);
    return group.all_in_use.value() + group.dedicated_in_use.value();
  }
  std::uint64_t set_aside() const { return a.tenant.counters.set_aside_queue_pairs.value(); }
  /// Another queue pair of the tenant does what it does when it is alone.
  void expect_that_another_goes_on() {
    if (other == nullptr) {
      other = &a.make_qp(*pair.ca, *pair.ca, {.send_entries = kRing});
      TestQp& its_peer = a.make_qp(*pair.ca, *pair.ca);
      connect(a, *other, a, its_peer);
    }
    for (const Post way : {Post::kVcb, Post::kDoorbell}) {
      Buffer& there = a.make_buffer(8 * kRing);
      for (std::uint32_t i = 0; i < kRing; ++i)
        a.post(*other,
               {.opcode = abi::Opcode::kRdmaWrite,
                .sge = {near->part(8 * i, 8)},
                .remote_addr = there.addr() + 8 * i,
                .rkey = there.key},
               way);
      run_near(microseconds(40));
      EXPECT_EQ(pair.ca->poll_all().size(), kRing);
    }
  }
  void expect_done(TestQp& qp, std::uint32_t count, Status first = Status::kSuccess,
                   Status others = Status::kSuccess) {
    std::vector<Completed> done;
    EXPECT_TRUE(pair.run_until([&] {
      while (const auto one = cq->poll()) all_done.push_back(*one);
      const auto of_it = [&](const Completed& one) { return one.qpn == qp.qp.qpn.value; };
      return std::count_if(all_done.begin(), all_done.end(), of_it) == count;
    }));
    std::uint32_t index = 0;
    for (const Completed& one : all_done) {
      if (one.qpn != qp.qp.qpn.value) continue;
      EXPECT_EQ(one.index, index);
      EXPECT_EQ(one.status, index == 0 ? first : others) << index;
      ++index;
    }
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  TestCq* cq = nullptr;
  TestCq* far_cq = nullptr;
  Buffer* near = nullptr;
  Buffer* far = nullptr;
  TestQp* other = nullptr;
  std::vector<TestQp*> peers;
  std::vector<Completed> all_done;
};

/// Each reads a word and then, fenced, writes it to the next place, and so on: all words are alike
/// in the end.
TEST_F(Aside, NobodyWaitsForFencedCommands) {
  std::vector<TestQp*> waiting;
  meet();
  for (int i = 0; i < kMany; ++i) {
    const std::size_t first = kRing * static_cast<std::size_t>(i);
    far->words[first] = 100 + static_cast<std::uint64_t>(i);
    waiting.push_back(&make());
    const Post way = i % 2 == 0 ? Post::kVcb : Post::kDoorbell;
    a.post(*waiting.back(), transfer(abi::Opcode::kRdmaRead, first), way);
    for (std::uint32_t w = 1; w < kRing; ++w) {
      Work copy = transfer(abi::Opcode::kRdmaWrite, first + w, true);
      copy.sge = {near->part(8 * first, 8)};
      a.post(*waiting.back(), copy, way);
    }
    run_near(microseconds(20));
  }
  run_near(milliseconds(1));
  EXPECT_EQ(set_aside(), static_cast<std::uint64_t>(kMany));
  EXPECT_EQ(pcbs_in_use(), static_cast<std::uint64_t>(kMany)) << "one for each read";
  expect_that_another_goes_on();
  for (TestQp* qp : waiting) expect_done(*qp, kRing);
  for (std::size_t i = 0; i < kRing * static_cast<std::size_t>(kMany); ++i)
    EXPECT_EQ(far->words[i], 100 + i / kRing) << i;
  EXPECT_EQ(set_aside(), 0u);
  EXPECT_EQ(a.tenant.counters.commands_vcb.value() + a.tenant.counters.commands_doorbell.value(),
            (kMany + 2u) * kRing + 1)
      << "one that comes again is counted once";
}

/// No more reads may be under way than the queue pair allows.
TEST_F(Aside, NobodyWaitsForReadsThatWaitForEachOther) {
  TestQp& qp = make({.timeout = 20, .max_rd_atomic = 2});
  meet();
  for (std::uint32_t i = 0; i < kRing; ++i) {
    far->words[i] = i + 1;
    a.post(qp, transfer(abi::Opcode::kRdmaRead, i));
  }
  run_near(milliseconds(1));
  EXPECT_EQ(qp.qp.sq.commands, 2u);
  expect_done(qp, kRing);
  for (std::uint32_t i = 0; i < kRing; ++i) EXPECT_EQ(near->words[i], i + 1);
}

/// After a short wait the engine does not suspend the queue pair: giving commands back and fetching
/// them again would cost more.
TEST_F(Aside, AShortWaitIsWaited) {
  meet();
  TestQp& qp = make();
  a.post(qp, transfer(abi::Opcode::kRdmaRead, 0));
  for (std::uint32_t i = 1; i < kRing; ++i) a.post(qp, transfer(abi::Opcode::kRdmaRead, i, true));
  expect_done(qp, kRing);
  EXPECT_EQ(a.tenant.counters.commands_given_back.value(), 0u);
}

TEST_F(Aside, ACommandOfWindowsWaitsWithoutAPcb) {
  meet();
  TestQp& qp = make();
  Buffer& opened = a.make_buffer(64, Process::kFull | memory::kBindWindow);
  const std::uint32_t window = (*a.adapter.engine.memory().windows().insert(a.pd, false))->key;
  a.post(qp, write(0));
  a.post(qp, {.opcode = abi::Opcode::kBindWindow,
              .imm = memory::kRemoteWrite,
              .remote_addr = opened.addr(),
              .rkey = window ^ 1,
              .compare_add = 64,
              .swap = opened.key});
  for (std::uint32_t i = 2; i < kRing; ++i) a.post(qp, write(i));
  run_near(milliseconds(1));
  EXPECT_EQ(qp.qp.sq.commands, 1u);
  expect_done(qp, kRing);
}

TEST_F(Aside, WhatIsSetAsideCanBeResetOrFlushed) {
  TestQp& reset = make();
  TestQp& failed = make();
  meet();
  for (TestQp* qp : {&reset, &failed}) {
    a.post(*qp, transfer(abi::Opcode::kRdmaRead, 0));
    for (std::uint32_t i = 1; i < kRing; ++i)
      a.post(*qp, transfer(abi::Opcode::kRdmaRead, i, true));
  }
  run_near(milliseconds(1));
  EXPECT_EQ(set_aside(), 2u);
  a.reset(reset);
  a.adapter.engine.queue_pairs().enter_error(failed.qp);
  EXPECT_EQ(set_aside(), 0u);
  expect_done(failed, kRing, Status::kFlushError, Status::kFlushError);
  expect_done(reset, 0);
}

/// The queue pair drains only after all commands that have begun complete, also those of a
/// suspended queue pair.
TEST_F(Aside, WhatIsSetAsideGoesOnWhileDraining) {
  meet();
  TestQp& qp = make();
  a.post(qp, transfer(abi::Opcode::kRdmaRead, 0));
  for (std::uint32_t i = 1; i < 4; ++i) a.post(qp, transfer(abi::Opcode::kRdmaRead, i, true));
  run_near(milliseconds(1));
  a.adapter.engine.queue_pairs().enter_drain(qp.qp, true);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, qp.qp.user_handle), 0u);
  expect_done(qp, 4);
  EXPECT_EQ(pair.sink_of(a).count(EventType::kSendQueueDrained, qp.qp.user_handle), 1u);
}

/// Those of datagrams and unreliable connections wait for it like those of reliable ones.
TEST_F(Aside, NobodyWaitsForANeighbour) {
  std::vector<TestQp*> waiting;
  pair.link->set_link(false);
  for (int i = 0; i < kMany; ++i) {
    const QpType type = i % 2 == 0 ? QpType::kRc : QpType::kUc;
    const QpOptions options{.type = type, .send_entries = kRing, .receive_entries = kRing};
    waiting.push_back(&a.make_qp(*cq, *cq, options));
    peers.push_back(&b.make_qp(*far_cq, *far_cq, options));
    connect(a, *waiting.back(), b, *peers.back(), kPatient);
    for (std::uint32_t w = 0; w < kRing; ++w)
      a.post(*waiting.back(), write(kRing * static_cast<std::size_t>(i) + w),
             i % 3 == 0 ? Post::kVcb : Post::kDoorbell);
    run_near(microseconds(20));
  }
  run_near(milliseconds(1));
  EXPECT_GE(set_aside(), kMany - 3u) << "some may be trying again";
  EXPECT_LE(pcbs_in_use(), 3u);
  expect_that_another_goes_on();
  for (std::size_t i = 0; i < near->words.size(); ++i) near->words[i] = i;
  pair.link->set_link(true);
  for (TestQp* qp : waiting) expect_done(*qp, kRing);
  for (std::size_t i = 0; i < kRing * static_cast<std::size_t>(kMany); ++i)
    EXPECT_EQ(far->words[i], i);
}

/// When it has not answered for long, packets to it are lost: those that await answers hold
/// nothing between their retries, and all retries are made.
TEST_F(Aside, NobodyWaitsForANeighbourThatIsNotThere) {
  std::vector<TestQp*> waiting;
  for (int i = 0; i < kMany; ++i) {
    waiting.push_back(&a.make_qp(*cq, *cq, {.send_entries = kRing}));
    bring_up(a, *waiting.back(), Qpn(77), address(99), {.timeout = 15, .retry_count = 3});
    for (std::uint32_t w = 0; w < kRing; ++w) a.post(*waiting.back(), write(w), Post::kDoorbell);
    run_near(microseconds(20));
  }
  pair.run_for(milliseconds(120));
  EXPECT_EQ(a.tenant.counters.stalled_queue_pairs.value(), static_cast<std::uint64_t>(kMany));
  EXPECT_EQ(pcbs_in_use(), 0u);
  expect_that_another_goes_on();
  for (TestQp* qp : waiting)
    expect_done(*qp, kRing, Status::kRetryExceededError, Status::kFlushError);
  const auto timeouts = static_cast<std::size_t>(transport::Count::kAckTimeouts);
  EXPECT_EQ(a.tenant.counters.transport[timeouts].value(), kMany * 4u);
}

/// A datagram waits for its own neighbour only as long as packets do, then it is lost.
TEST_F(Aside, NobodyWaitsForTheNeighboursOfDatagrams) {
  std::vector<TestQp*> waiting;
  const std::uint32_t handle = a.make_ah(address(99));
  for (int i = 0; i < kMany; ++i) {
    waiting.push_back(&a.make_qp(*cq, *cq, {.type = QpType::kUd, .send_entries = kRing}));
    bring_up_datagram(a, *waiting.back(), 5);
    for (std::uint32_t w = 0; w < kRing; ++w)
      a.post(*waiting.back(),
             {.sge = {near->part(8 * w, 8)}, .remote_qpn = 5, .address_handle = handle},
             Post::kDoorbell);
    run_near(microseconds(20));
  }
  run_near(milliseconds(1));
  EXPECT_GE(set_aside(), kMany - 3u);
  EXPECT_LE(pcbs_in_use(), 3u);
  expect_that_another_goes_on();
  for (TestQp* qp : waiting) expect_done(*qp, kRing);
}

/// The slowest that congestion makes a queue pair: 1 Mbit/s, a packet in 8 ms.
TEST_F(Aside, NobodyWaitsForThePaceOfOthers) {
  const CongestionParameters slow{
      .mode = CongestionMode::kOn,
      .fixed = {.rate_to_set_on_first_cnp = 1, .rpg_time_reset = 1'000'000}};
  a.adapter.engine.set_congestion(slow);
  Buffer& from = a.make_buffer(1000);
  Buffer& to = b.make_buffer(1000);
  from.fill(3);
  meet();
  std::vector<TestQp*> waiting;
  for (int i = 0; i < kMany; ++i) {
    waiting.push_back(&make());
    waiting.back()->qp.connection.flow.notify(slow, pair.now);
    for (std::uint32_t w = 0; w < kRing; ++w)
      a.post(*waiting.back(),
             {.opcode = abi::Opcode::kRdmaWrite,
              .sge = {from.all()},
              .remote_addr = to.addr(),
              .rkey = to.key},
             i % 2 == 0 ? Post::kVcb : Post::kDoorbell);
    pair.run_for(microseconds(20));
  }
  pair.run_for(microseconds(500));
  EXPECT_EQ(set_aside(), static_cast<std::uint64_t>(kMany));
  EXPECT_EQ(pcbs_in_use(), 0u);
  expect_that_another_goes_on();
  for (TestQp* qp : waiting) expect_done(*qp, kRing);
  EXPECT_TRUE(from.equals(to));
}

/// Losses have left less than a packet that may be under way at a time, on a way of a millisecond.
TEST_F(Aside, NobodyWaitsForTheWindowsOfOthers) {
  meet();
  TestQp& qp = make();
  std::uint32_t posted = 0;
  const auto be_answered_after = [&](Duration time) {
    a.post(qp, write(posted++));
    run_near(time);
    expect_done(qp, posted);
  };
  for (int i = 0; i < 6; ++i) {
    be_answered_after(milliseconds(1));  // by the same measure it is late then
    be_answered_after(milliseconds(100));
  }
  for (std::uint32_t w = 0; w < kRing; ++w) a.post(qp, write(posted++));
  pair.run_for(milliseconds(1));
  EXPECT_EQ(set_aside(), 1u);
  EXPECT_EQ(pcbs_in_use(), 0u);
  const Counter& congestion =
      a.tenant.counters.waits.time[static_cast<std::size_t>(WaitCause::kCongestion)];
  EXPECT_GT(congestion.value(), 0u);
  expect_that_another_goes_on();
  expect_done(qp, posted);
}

/// The message that is half sent keeps its PCB, but not the credit that others need.
TEST_F(Aside, AMessageThatIsHalfSentHoldsNoExecutionCredit) {
  const CongestionParameters slow{
      .mode = CongestionMode::kOn,
      .fixed = {.rate_to_set_on_first_cnp = 1, .rpg_time_reset = 1'000'000}};
  a.adapter.engine.set_congestion(slow);
  Buffer& from = a.make_buffer(4000);
  Buffer& to = b.make_buffer(4000);
  from.fill(5);
  meet();
  TestQp& qp = make();
  qp.qp.connection.flow.notify(slow, pair.now);
  for (std::uint32_t w = 0; w < kRing; ++w)
    a.post(qp, {.opcode = abi::Opcode::kRdmaWrite,
                .sge = {from.all()},
                .remote_addr = to.addr(),
                .rkey = to.key});
  pair.run_for(milliseconds(1));
  EXPECT_EQ(qp.qp.sq.commands, 1u);
  EXPECT_EQ(a.adapter.engine.tvls()[qp.qp.sq.tvl].execution.in_use.value(), 0u);
  expect_done(qp, kRing);
  EXPECT_TRUE(from.equals(to));
}

}  // namespace
}  // namespace softhca::engine
