// Processes post commands at random by VCB and doorbell; kick lists of two TVLs start them at
// random. Every command must start exactly once and in sequence (B3), and when the scheduler says
// that nobody has work, nobody that may go on has (a queue pair is never forgotten).
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "daemon/schedule/send_queue_scheduler.hpp"

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kEntries = 16;
constexpr std::uint16_t kTenants = 3;
constexpr std::uint32_t kSlots = 9;

struct ModelQp {
  std::uint32_t posted = 0;
  std::uint32_t started = 0;
  std::vector<std::uint32_t> vcbs;  ///< posted by VCB and not seen by the engine
  std::deque<std::uint32_t> by_vcb;
  std::deque<std::uint32_t> by_doorbell;
  bool blocked = false;
};

class Model {
 public:
  explicit Model(std::uint32_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < kSlots; ++i)
      scheduler_.open(QpSlot(i), TenantId(static_cast<std::uint16_t>(i % kTenants)), kEntries);
  }

  void step() {
    const std::uint32_t i = random_() % kSlots;
    switch (random_() % 10) {
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
      default:
        return start(i);
    }
  }

  /// Removes all obstacles and lets everything run out.
  void drain() {
    for (std::uint16_t t = 0; t < kTenants; ++t) {
      scheduler_.unblock_all(TenantId(t));
      unblock_tenant(t);
    }
    for (ModelQp& qp : qps_) qp.blocked = false;
    for (int round = 0; round < 4000; ++round) {
      const std::uint32_t i = random_() % kSlots;
      ring(i);
      see_vcb(i);
      turn();
      start(i);
      start(i);
    }
    for (std::uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(qps_[i].started, qps_[i].posted) << i;
    ASSERT_FALSE(scheduler_.has_work());
  }

 private:
  void post(ModelQp& qp) {
    if (qp.posted - qp.started == kEntries) return;
    if (random_() % 2 != 0) qp.vcbs.push_back(qp.posted);
    ++qp.posted;
  }

  void ring(std::uint32_t i) {
    ASSERT_NE(scheduler_.ring(QpSlot(i), qps_[i].posted), RingVerdict::kHostile);
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
      qp.by_vcb.push_back(sequence);
    } else {
      ASSERT_NE(scheduler_.ring(QpSlot(i), sequence + 1), RingVerdict::kHostile);
    }
  }

  void turn() {
    const auto turn = scheduler_.next();
    ASSERT_EQ(turn.has_value(), scheduler_.has_work());
    if (!turn) return expect_nobody_is_forgotten();
    ModelQp& qp = qps_[turn->slot.value];
    ASSERT_FALSE(qp.blocked || stopped_[turn->slot.value % kTenants]);
    ASSERT_TRUE(qp.by_vcb.empty());
    const std::uint32_t count = random_() % (turn->count + 1);
    for (std::uint32_t n = 0; n < count; ++n) qp.by_doorbell.push_back(turn->sequence + n);
    scheduler_.fetched(turn->slot, count);
  }

  void expect_nobody_is_forgotten() {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      if (qps_[i].blocked || stopped_[i % kTenants] || !qps_[i].by_vcb.empty()) continue;
      ASSERT_EQ(scheduler_.pending(QpSlot(i)), 0u) << i;
    }
  }

  void obstruct(std::uint32_t i) {
    const std::uint16_t tenant = i % kTenants;
    switch (random_() % 5) {
      case 0:
        // Blocks only what has a turn to lose.
        if (scheduler_.pending(QpSlot(i)) > 0 && qps_[i].by_vcb.empty()) qps_[i].blocked = true;
        return scheduler_.block(QpSlot(i));
      case 1:
        qps_[i].blocked = false;
        return scheduler_.unblock(QpSlot(i));
      case 2:
        for (std::uint32_t s = tenant; s < kSlots; s += kTenants) qps_[s].blocked = false;
        return scheduler_.unblock_all(TenantId(tenant));
      case 3:
        stopped_[tenant] = true;
        return scheduler_.block_tenant(TenantId(tenant));
      default:
        return unblock_tenant(tenant);
    }
  }

  void unblock_tenant(std::uint16_t tenant) {
    stopped_[tenant] = false;
    scheduler_.unblock_tenant(TenantId(tenant));
  }

  // The two TVLs start commands independently of each other.
  void start(std::uint32_t i) {
    ModelQp& qp = qps_[i];
    auto& lane = random_() % 2 != 0 ? qp.by_vcb : qp.by_doorbell;
    if (lane.empty()) return;
    ASSERT_EQ(lane.front(), qp.started) << "queue pair " << i;
    lane.pop_front();
    ++qp.started;
    scheduler_.started(QpSlot(i));
    if (scheduler_.pending(QpSlot(i)) == 0) qp.blocked = false;
  }

  std::mt19937 random_;
  SendQueueScheduler scheduler_{{.max_queue_pairs = kSlots, .max_tenants = kTenants, .quantum = 4}};
  std::vector<ModelQp> qps_{kSlots};
  bool stopped_[kTenants] = {};
};

TEST(SendQueueSchedulerModel, EveryCommandStartsOnceAndInSequence) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Model model(seed);
    for (int step = 0; step < 3000; ++step) {
      model.step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << step;
    }
    model.drain();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace softhca::schedule
