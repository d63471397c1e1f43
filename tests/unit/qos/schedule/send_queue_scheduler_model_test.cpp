// SPDX-License-Identifier: Apache-2.0

// Processes post commands at random by VCB and doorbell, and kick lists of two TVLs start them at
// random. Doorbells overflow and come back, and queue pairs close and open. Every command must
// start exactly once and in sequence (B3). Every doorbell must be in exactly one of its two places
// (B4). Every queue pair that may go on must do so, however many others may not.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kEntries = 16;
constexpr std::uint16_t kModelTenants = 3;
constexpr std::uint32_t kModelSlots = 9;

struct ModelQp {
  std::uint32_t posted = 0;
  std::uint32_t started = 0;
  std::uint32_t announced = 0;      ///< the furthest end the engine was told of, either way
  std::vector<std::uint32_t> vcbs;  ///< posted by VCB and not seen by the engine
  std::deque<std::uint32_t> own;    ///< in the kick list of its own TVL
  std::deque<std::uint32_t> dedicated;
  bool waits_for_vcbs = false;  ///< the last of `own` came by VCB
  bool blocked = false;
};

class Model {
 public:
  /// Places for `entries` queue pairs' doorbells.
  Model(std::uint32_t seed, std::uint32_t entries)
      : random_(seed),
        scheduler_({.max_queue_pairs = kModelSlots,
                    .max_classes = kModelTenants,
                    .quantum = 4,
                    .doorbells = {.entries = entries,
                                  .threshold = 0,
                                  .prune = seed % 2 == 0 ? PrunePolicy::kNewest
                                                         : PrunePolicy::kMostOverflow}},
                   memory_) {
    for (std::uint32_t i = 0; i < kModelSlots; ++i) open(i);
  }

  void step() {
    const std::uint32_t i = random_() % kModelSlots;
    switch (random_() % 12) {
      case 0:
      case 1:
        return post(qps_[i]);
      case 2:
        return ring(i);
      case 3:
      case 4:
        return see_vcb(i);
      case 5:
      case 6:
        return turn();
      case 7:
        return obstruct(i);
      case 8:
        return relieve();
      case 9:
        return random_() % 8 == 0 ? reopen(i) : relieve();
      default:
        return start(i);
    }
  }

  /// Everything of queue pairs that may go on runs out, whatever the others hold.
  void drain_those_that_may() {
    for (int round = 0; round < 4000; ++round) drain_step();
    for (std::uint32_t i = 0; i < kModelSlots; ++i) {
      if (qps_[i].blocked || stopped_[i % kModelTenants] || bounds_[i % kModelTenants] == 0)
        continue;
      ASSERT_EQ(qps_[i].started, qps_[i].posted) << i;
    }
  }

  /// Removes all obstacles and lets everything run out.
  void drain() {
    for (std::uint16_t t = 0; t < kModelTenants; ++t) {
      unblock_class(t);
      set_bound(t, SendQueueScheduler::kNoBound);
    }
    for (std::uint32_t i = 0; i < kModelSlots; ++i) {
      qps_[i].blocked = false;
      scheduler_.unblock(QpSlot(i));
    }
    for (int round = 0; round < 4000; ++round) drain_step();
    for (std::uint32_t i = 0; i < kModelSlots; ++i) {
      ASSERT_EQ(qps_[i].started, qps_[i].posted) << i;
      ASSERT_FALSE(scheduler_.overflowed(QpSlot(i))) << i;
    }
    ASSERT_FALSE(scheduler_.has_work());
    ASSERT_EQ(scheduler_.linked(), 0u);
  }

  void expect_one_place_for_each() {
    std::uint32_t linked = 0;
    for (std::uint32_t i = 0; i < kModelSlots; ++i) {
      const QpSlot slot(i);
      const bool overflowed = scheduler_.overflowed(slot);
      ASSERT_FALSE(overflowed && scheduler_.pending(slot) != 0) << i;
      const std::uint32_t end = overflowed
                                    ? memory_.ends.at(i)
                                    : scheduler_.next_sequence(slot) + scheduler_.pending(slot);
      ASSERT_EQ(end, qps_[i].announced) << i;
      linked += scheduler_.pending(slot) != 0;
    }
    ASSERT_EQ(scheduler_.linked(), linked);
    ASSERT_LE(linked, std::max<std::uint32_t>(scheduler_.config().entries, kModelTenants));
  }

  /// Each doorbell that was pruned is accounted for (B4).
  void expect_all_accounted_for() {
    for (std::uint16_t t = 0; t < kModelTenants; ++t) {
      const DoorbellCounters& c = scheduler_.counters(QosClassId(t));
      ASSERT_EQ(c.pruned.value(), c.recovered.value() + c.lost.value() + c.dropped.value() +
                                      static_cast<std::uint64_t>(c.overflow.value()));
    }
  }

  std::uint64_t pruned() const {
    std::uint64_t sum = 0;
    for (std::uint16_t t = 0; t < kModelTenants; ++t)
      sum += scheduler_.counters(QosClassId(t)).pruned.value();
    return sum;
  }

 private:
  void post(ModelQp& qp) {
    if (qp.posted - qp.started == kEntries) return;
    if (random_() % 2 != 0) qp.vcbs.push_back(qp.posted);
    ++qp.posted;
  }

  void open(std::uint32_t i) {
    // Near the wrap-around of sequence numbers.
    const std::uint32_t first = 0u - random_() % 64;
    scheduler_.open(QpSlot(i), QosClassId(static_cast<std::uint16_t>(i % kModelTenants)), kEntries,
                    first);
    qps_[i] = ModelQp{};
    qps_[i].posted = qps_[i].started = qps_[i].announced = first;
  }

  void reopen(std::uint32_t i) {
    scheduler_.close(QpSlot(i));
    memory_.ends.erase(i);
    open(i);
  }

  void announce(std::uint32_t i, std::uint32_t end) {
    ASSERT_NE(scheduler_.ring(QpSlot(i), end), RingVerdict::kHostile);
    if (ring_distance(end, qps_[i].announced) > 0) qps_[i].announced = end;
  }

  void ring(std::uint32_t i) { announce(i, qps_[i].posted); }

  void relieve() {
    const Relief relief = scheduler_.relieve();
    ASSERT_NE(relief.kind, Relief::Kind::kLost);
    if (relief.kind == Relief::Kind::kNone) return;
    ASSERT_EQ(scheduler_.overflowed(relief.slot), relief.kind == Relief::Kind::kPruned);
  }

  void drain_step() {
    const std::uint32_t i = random_() % kModelSlots;
    ring(i);
    see_vcb(i);
    relieve();
    turn();
    start(i);
    start(i);
  }

  // The engine looks at one of the VCBs, in any order.
  void see_vcb(std::uint32_t i) {
    ModelQp& qp = qps_[i];
    if (qp.vcbs.empty()) return;
    std::swap(qp.vcbs[random_() % qp.vcbs.size()], qp.vcbs.back());
    const std::uint32_t sequence = qp.vcbs.back();
    qp.vcbs.pop_back();
    if (scheduler_.vcb_may_start(QpSlot(i), sequence)) {
      scheduler_.vcb_kicked(QpSlot(i));
      qp.own.push_back(sequence);
      qp.waits_for_vcbs = true;
      qp.announced = sequence + 1;
    } else {
      announce(i, sequence + 1);
    }
  }

  void turn() {
    const auto turn = scheduler_.next();
    if (!turn) return expect_nobody_is_forgotten();
    ModelQp& qp = qps_[turn->slot.value];
    ASSERT_FALSE(stopped_[turn->slot.value % kModelTenants]);
    ASSERT_FALSE(qp.waits_for_vcbs);
    if (qp.blocked) return scheduler_.block(turn->slot);  // its kick list is still full
    const KickedIn before = scheduler_.kicked_in(turn->slot);
    ASSERT_EQ(before, !qp.own.empty()         ? KickedIn::kOwnTvl
                      : !qp.dedicated.empty() ? KickedIn::kDedicatedTvl
                                              : KickedIn::kNone);
    const KickedIn list = random_() % 2 != 0 ? KickedIn::kOwnTvl : KickedIn::kDedicatedTvl;
    // No PCB that goes with the list: until its commands have started.
    if (before != KickedIn::kNone && before != list) return scheduler_.block(turn->slot);
    const std::uint32_t count = random_() % (turn->count + 1);
    auto& kicked = list == KickedIn::kOwnTvl ? qp.own : qp.dedicated;
    for (std::uint32_t n = 0; n < count; ++n) kicked.push_back(turn->sequence + n);
    scheduler_.fetched(turn->slot, count, list);
  }

  void expect_nobody_is_forgotten() {
    for (std::uint32_t i = 0; i < kModelSlots; ++i) {
      const bool waits = !qps_[i].own.empty() || !qps_[i].dedicated.empty();
      if (qps_[i].blocked || stopped_[i % kModelTenants] || waits) continue;
      ASSERT_EQ(scheduler_.pending(QpSlot(i)), 0u) << i;
    }
  }

  void obstruct(std::uint32_t i) {
    const std::uint16_t tenant = i % kModelTenants;
    switch (random_() % 5) {
      case 0:
        qps_[i].blocked = true;
        return scheduler_.block(QpSlot(i));
      case 1:
        qps_[i].blocked = false;
        return scheduler_.unblock(QpSlot(i));
      case 2:
        stopped_[tenant] = true;
        return scheduler_.block_class(QosClassId(tenant));
      case 3:
        return set_bound(tenant, random_() % 2 == 0 ? random_() % 3 : SendQueueScheduler::kNoBound);
      default:
        return unblock_class(tenant);
    }
  }

  void set_bound(std::uint16_t tenant, std::uint32_t places) {
    bounds_[tenant] = places;
    scheduler_.set_bound(QosClassId(tenant), places);
  }

  void unblock_class(std::uint16_t tenant) {
    stopped_[tenant] = false;
    scheduler_.unblock_class(QosClassId(tenant));
  }

  // The two TVLs start commands independently of each other.
  void start(std::uint32_t i) {
    ModelQp& qp = qps_[i];
    auto& kicked = random_() % 2 != 0 ? qp.own : qp.dedicated;
    if (kicked.empty()) return;
    ASSERT_EQ(kicked.front(), qp.started) << "queue pair " << i;
    kicked.pop_front();
    if (kicked.empty()) qp.waits_for_vcbs = false;
    ++qp.started;
    scheduler_.started(QpSlot(i));
  }

  std::mt19937 random_;
  OverflowMemory memory_;
  SendQueueScheduler scheduler_;
  std::vector<ModelQp> qps_{kModelSlots};
  bool stopped_[kModelTenants] = {};
  std::uint32_t bounds_[kModelTenants] = {
      SendQueueScheduler::kNoBound, SendQueueScheduler::kNoBound, SendQueueScheduler::kNoBound};
};

void run_model(std::uint32_t entries) {
  std::uint64_t pruned = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Model model(seed, entries);
    for (int step = 0; step < 3000; ++step) {
      model.step();
      model.expect_one_place_for_each();
      model.expect_all_accounted_for();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << step;
    }
    model.drain_those_that_may();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    model.drain();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    pruned += model.pruned();
  }
  EXPECT_GT(pruned, 3000u);
}

/// Only bounds make doorbells overflow.
TEST(SendQueueSchedulerModel, EveryCommandStartsOnceAndInSequence) { run_model(1000); }

TEST(SendQueueSchedulerModel, ThatHoldsWhateverOverflows) {
  for (const std::uint32_t entries : {1u, kModelTenants + 0u, kModelTenants + 2u})
    run_model(entries);
}

}  // namespace
}  // namespace softhca::schedule
