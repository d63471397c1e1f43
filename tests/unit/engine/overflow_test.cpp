// SPDX-License-Identifier: Apache-2.0

// Doorbells that exceed the daemon's queue wait in the memory of their processes. None is lost or
// reordered, and only the tenant that floods waits (mechanisms B3 to B5).
#include <map>
#include <random>
#include <set>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using Post = Process::Way;

/// Places for the doorbells of `places` queue pairs, at least one for each tenant.
EngineLimits few_places(std::uint32_t places = 4) {
  EngineLimits limits = Adapter::small_limits();
  limits.tenants = 3;
  limits.levels = 0;
  limits.doorbells = {.entries = places, .threshold = 0};
  return limits;
}

/// A process with queue pairs connected to those of another process.
class Overflow : public BothWays {
 protected:
  static constexpr std::uint32_t kPairs = 16;
  static constexpr std::uint32_t kRing = 16;

  explicit Overflow(const EngineLimits& limits = few_places()) : pair(GetParam(), {}, limits) {
    send_cq = &a.make_cq(512);
    receive_cq = &b.make_cq(512);
    const QpOptions options{.send_entries = kRing, .receive_entries = kRing};
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      near.push_back(&a.make_qp(*send_cq, *send_cq, options));
      far.push_back(&b.make_qp(*receive_cq, *receive_cq, options));
      connect(a, *near[i], b, *far[i]);
    }
  }

  const schedule::SendQueueScheduler& scheduler() const { return a.adapter.engine.scheduler(); }
  const schedule::DoorbellCounters& counters(const Process& process) const {
    return process.adapter.engine.scheduler().counters(process.tenant.qos_class);
  }
  bool overflowed(const TestQp& qp) const {
    return scheduler().overflowed(schedule::QpSlot(qp.qp.slot));
  }
  TestQp* some_overflowed() const {
    for (TestQp* qp : near)
      if (overflowed(*qp)) return qp;
    return nullptr;
  }
  std::byte* overflow_of(TestQp& qp) const { return qp.slot(0) + kRing * qp.stride; }

  /// Rings for sends that find no receive, on all queue pairs: some overflow, and stay so.
  void jam() {
    for (TestQp* qp : near) {
      for (std::uint32_t i = 0; i < kRing; ++i) a.write_command(*qp, {});
      a.ring(qp->qp.qpn.value, kRing);
    }
    pair.steps(50);
    ASSERT_GT(counters(a).overflow.value(), 0u);
  }
  void post_receives() {
    for (TestQp* qp : far)
      for (std::uint32_t i = 0; i < kRing; ++i) b.post_receive(*qp, {});
  }
  /// Counts completions by queue pair, in order on each, until `count` have come.
  std::map<std::uint32_t, std::uint32_t> expect_completions(std::uint32_t count) {
    std::map<std::uint32_t, std::uint32_t> done;
    std::uint32_t sum = 0;
    EXPECT_TRUE(pair.run_until([&] {
      while (const auto c = send_cq->poll()) {
        EXPECT_EQ(c->status, Status::kSuccess);
        EXPECT_EQ(c->index, done[c->qpn]++);
        ++sum;
      }
      return sum >= count;
    })) << sum;
    return done;
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  TestCq* send_cq = nullptr;
  TestCq* receive_cq = nullptr;
  std::vector<TestQp*> near, far;
};

TEST_P(Overflow, NothingIsLostAndAllStaysInOrder) {
  jam();
  post_receives();
  const auto done = expect_completions(kPairs * kRing);
  for (TestQp* qp : near) EXPECT_EQ(done.at(qp->qp.qpn.value), kRing);
  EXPECT_EQ(counters(a).pruned.value(), counters(a).recovered.value());
  EXPECT_GT(counters(a).recovered.value(), 0u);
  EXPECT_EQ(counters(a).overflow.value(), 0u);
  EXPECT_EQ(counters(a).lost.value(), 0u);
  pair.expect_idle();
}

/// While doorbells of a queue pair are outside, its VCB commands become doorbells (B3).
TEST_P(Overflow, VcbCommandsJoinWhatOverflowed) {
  for (TestQp* qp : near) {
    for (std::uint32_t i = 0; i < kRing / 2; ++i) a.write_command(*qp, {});
    a.ring(qp->qp.qpn.value, kRing / 2);
  }
  pair.steps(50);
  TestQp* qp = some_overflowed();
  ASSERT_NE(qp, nullptr);
  const std::uint64_t before = a.tenant.counters.send_queue_mode.value();
  for (std::uint32_t i = 0; i < kRing / 2; ++i) {
    a.post(*qp, {}, Post::kVcb);
    pair.step();
  }
  EXPECT_EQ(a.tenant.counters.send_queue_mode.value() - before, kRing / 2);
  post_receives();
  EXPECT_EQ(expect_completions((kPairs + 1) * kRing / 2).at(qp->qp.qpn.value), kRing);
}

TEST_P(Overflow, AtRandomByBothWays) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> posted(kPairs), done(kPairs), receives(kPairs);
  constexpr std::uint32_t kEach = 300;
  const auto poll = [&] {
    while (const auto c = send_cq->poll()) {
      ASSERT_EQ(c->status, Status::kSuccess);
      for (std::uint32_t i = 0; i < kPairs; ++i)
        if (near[i]->qp.qpn.value == c->qpn) {
          ASSERT_EQ(c->index, done[i]);
          ++done[i];
        }
    }
    while (const auto c = receive_cq->poll()) ASSERT_EQ(c->status, Status::kSuccess);
  };
  const auto all_done = [&] {
    return std::all_of(done.begin(), done.end(), [](std::uint32_t n) { return n == kEach; });
  };
  for (int round = 0; round < 200000 && !all_done(); ++round) {
    const std::uint32_t i = random() % kPairs;
    if (receives[i] < kEach && receives[i] - done[i] < kRing && random() % 2 != 0) {
      b.post_receive(*far[i], {});
      ++receives[i];
    }
    const std::uint32_t burst = random() % 6;
    for (std::uint32_t n = 0; n < burst && posted[i] < kEach && posted[i] - done[i] < kRing; ++n) {
      bool vcb_free = false;
      for (std::uint32_t v = 0; v < Process::kVcbs; ++v) vcb_free |= a.vcb_free(v);
      a.post(*near[i], {}, vcb_free && random() % 2 != 0 ? Post::kVcb : Post::kDoorbell);
      ++posted[i];
    }
    if (random() % 3 == 0) pair.run_for(std::chrono::microseconds(random() % 40));
    poll();
  }
  EXPECT_TRUE(all_done());
  EXPECT_GT(counters(a).pruned.value(), 100u);
  EXPECT_EQ(counters(a).overflow.value(), 0u);
  pair.expect_idle();
}

/// One tenant floods doorbells that cannot be served. The engine serves those of another tenant
/// without delay.
TEST_P(Overflow, AFloodFillsItsOwnOverflowAlone) {
  Process c(a.adapter, a.adapter.add_tenant("c", address(3)));
  TestCq& cc = c.make_cq();
  TestQp& one = c.make_qp(cc, cc);
  TestQp& other = c.make_qp(cc, cc);
  connect(c, one, c, other);
  jam();
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (TestQp* qp : near) a.ring(qp->qp.qpn.value, kRing);
    c.post(one, {.opcode = abi::Opcode::kRdmaWrite}, Post::kDoorbell);
    std::optional<Completed> done;
    ASSERT_TRUE(pair.run_until([&] { return (done = cc.poll()).has_value(); },
                               std::chrono::microseconds(50)))
        << i;
    EXPECT_EQ(done->status, Status::kSuccess);
  }
  EXPECT_EQ(counters(c).pruned.value(), 0u);
  EXPECT_GT(counters(a).overflow.value(), 0u);
  c.end();
}

/// A new tenant gets its part of the dedicated PCBs when the other tenants return theirs.
TEST_P(Overflow, ANewTenantGetsItsPartOfTheDedicatedPcbs) {
  jam();
  Process c(a.adapter, a.adapter.add_tenant("c", address(3)));
  TestCq& cc = c.make_cq();
  TestQp& one = c.make_qp(cc, cc);
  TestQp& other = c.make_qp(cc, cc);
  connect(c, one, c, other);
  c.post(one, {.opcode = abi::Opcode::kRdmaWrite}, Post::kDoorbell);
  pair.steps(5);
  post_receives();
  expect_completions(kPairs * kRing);
  EXPECT_EQ(pair.wait_status(cc), Status::kSuccess);
  c.end();
}

TEST_P(Overflow, QueuePairsEndWithTheirDoorbellsOutside) {
  jam();
  const std::uint32_t before = counters(a).overflow.value();
  ASSERT_GE(before, 3u);
  // Destroyed.
  TestQp* qp = some_overflowed();
  std::erase(near, qp);
  a.destroy(*qp);
  EXPECT_EQ(counters(a).overflow.value(), before - 1);
  // Reset, and used again from its first command on.
  TestQp* again = some_overflowed();
  a.reset(*again);
  EXPECT_FALSE(overflowed(*again));
  EXPECT_EQ(counters(a).overflow.value(), before - 2);
  // Failed: all that was posted is flushed.
  TestQp* failed = some_overflowed();
  a.adapter.engine.queue_pairs().enter_error(failed->qp);
  for (TestQp* other : near)
    if (other != failed) a.reset(*other);
  std::uint32_t flushed = 0;
  EXPECT_TRUE(pair.run_until([&] {
    while (const auto c = send_cq->poll()) {
      EXPECT_EQ(c->qpn, failed->qp.qpn.value);
      EXPECT_EQ(c->status, Status::kFlushError);
      EXPECT_EQ(c->index, flushed++);
    }
    return flushed == kRing;
  }));
  EXPECT_EQ(counters(a).overflow.value(), 0u);
}

TEST_P(Overflow, SessionEndsWithDoorbellsOutside) {
  jam();
  a.end();
  EXPECT_EQ(counters(a).overflow.value(), 0u);
  EXPECT_EQ(scheduler().linked(), 0u);
}

/// A process overwrites its own doorbells. Those queue pairs go to the error state; all others are
/// unaffected.
TEST_P(Overflow, ScribbledDoorbells) {
  std::mt19937 random(11);
  jam();
  std::vector<TestQp*> scribbled;
  for (TestQp* qp : near) {
    if (!overflowed(*qp)) continue;
    const abi::Doorbell wrong[] = {{qp->qp.qpn.value, 0},
                                   {qp->qp.qpn.value, 2 * kRing + 1},
                                   {near[0]->qp.qpn.value ^ 1, 1},
                                   {static_cast<std::uint32_t>(random()), 0xffffffff}};
    std::memcpy(overflow_of(*qp), &wrong[scribbled.size() % 4], sizeof wrong[0]);
    scribbled.push_back(qp);
  }
  std::set<TestQp*> honest(near.begin(), near.end());
  for (TestQp* qp : scribbled) honest.erase(qp);
  post_receives();
  EXPECT_TRUE(pair.run_until([&] {
    return std::all_of(scribbled.begin(), scribbled.end(),
                       [](TestQp* qp) { return qp->qp.state == QpState::kError; });
  }));
  std::map<std::uint32_t, std::uint32_t> done;
  EXPECT_TRUE(pair.run_until([&] {
    while (const auto c = send_cq->poll()) done[c->qpn] += c->status == Status::kSuccess;
    return std::all_of(honest.begin(), honest.end(),
                       [&](TestQp* qp) { return done[qp->qp.qpn.value] == kRing; });
  }));
  EXPECT_EQ(counters(a).lost.value(), scribbled.size());
  EXPECT_EQ(a.tenant.counters.refused.hostile_memory.value(), scribbled.size());
  EXPECT_EQ(counters(a).overflow.value(), 0u);
  for (TestQp* qp : scribbled)
    EXPECT_EQ(a.adapter.sink.count(EventType::kQpFatal, qp->qp.user_handle), 1u);
}

/// All dedicated PCBs wait for a peer: what cannot go on does not stay in the daemon, even with
/// places enough.
class DedicatedOverflow : public Overflow {
 protected:
  DedicatedOverflow() : Overflow(few_places(64)) {}
};

TEST_P(DedicatedOverflow, DoorbellsOfATenantWithoutDedicatedPcbsGoOutside) {
  for (TestQp* qp : far) b.reset(*qp);  // the peer acknowledges nothing
  jam();
  EXPECT_EQ(scheduler().linked(a.tenant.qos_class), 0u);
  EXPECT_FALSE(scheduler().has_work());
  for (std::uint32_t i = 0; i < kPairs; ++i)
    bring_up(b, *far[i], near[i]->qp.qpn, a.tenant.addresses[0].gid);
  post_receives();
  expect_completions(kPairs * kRing);
  EXPECT_EQ(counters(a).overflow.value(), 0u);
}

/// They wait for receives, which are looked for in each poll step; nothing is given back yet.
class LocalDedicatedOverflow : public Overflow {
 protected:
  /// All but the last, which is for queue pairs that hold none.
  static EngineLimits hardly_a_pcb() {
    EngineLimits limits = few_places(64);
    limits.doorbells.dedicated_threshold = 2;
    return limits;
  }
  LocalDedicatedOverflow() : Overflow(hardly_a_pcb()) {}
};

TEST_P(LocalDedicatedOverflow, DoorbellsOfATenantWithoutDedicatedPcbsGoOutside) {
  jam();
  EXPECT_EQ(a.tenant.counters.stalled_queue_pairs.value(), 0u);
  post_receives();
  expect_completions(kPairs * kRing);
  EXPECT_EQ(counters(a).overflow.value(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engine, Overflow, ::testing::Values(Way::kLocal, Way::kWire), way_name);
INSTANTIATE_TEST_SUITE_P(Engine, DedicatedOverflow, ::testing::Values(Way::kWire), way_name);
INSTANTIATE_TEST_SUITE_P(Engine, LocalDedicatedOverflow, ::testing::Values(Way::kLocal), way_name);

}  // namespace
}  // namespace softhca::engine
