#include "daemon/schedule/run_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace softhca::schedule {
namespace {

constexpr TenantId kA(0), kB(1), kC(2);

class RunQueueTest : public ::testing::Test {
 protected:
  RunQueueTest() { queue.reserve(64, 4); }

  /// Serves `turns` times, each at `cost` of the queue pair's tenant; everybody goes on for ever.
  std::map<std::uint32_t, std::uint64_t> serve(int turns,
                                               const std::map<std::uint32_t, std::uint64_t>& cost,
                                               const std::map<std::uint32_t, TenantId>& owner) {
    std::map<std::uint32_t, std::uint64_t> served;
    for (int i = 0; i < turns; ++i) {
      const std::uint32_t slot = *queue.pop();
      queue.charge(owner.at(slot), cost.at(slot));
      served[slot] += cost.at(slot);
      queue.push(slot, owner.at(slot));
    }
    return served;
  }

  RunQueue queue;
};

TEST_F(RunQueueTest, HoldsEachOnceAndInOrder) {
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.pop());
  queue.push(3, kA);
  queue.push(1, kA);
  queue.push(3, kA);
  EXPECT_TRUE(queue.contains(3));
  EXPECT_EQ(queue.pop(), 3u);
  EXPECT_FALSE(queue.contains(3));
  EXPECT_EQ(queue.pop(), 1u);
  EXPECT_FALSE(queue.pop());
  EXPECT_TRUE(queue.empty());
}

TEST_F(RunQueueTest, SharesByCostWhateverTheNumberOfQueuePairs) {
  std::map<std::uint32_t, TenantId> owner{{0, kA}};
  std::map<std::uint32_t, std::uint64_t> cost{{0, 5000}};
  for (std::uint32_t slot = 1; slot <= 16; ++slot) {
    owner[slot] = kB;
    cost[slot] = 20000;
  }
  for (const auto& [slot, tenant] : owner) queue.push(slot, tenant);
  const auto served = serve(20000, cost, owner);
  std::uint64_t b = 0;
  for (std::uint32_t slot = 1; slot <= 16; ++slot) b += served.at(slot);
  EXPECT_NEAR(static_cast<double>(served.at(0)) / static_cast<double>(b), 1.0, 0.01);
  for (std::uint32_t slot = 2; slot <= 16; ++slot)
    EXPECT_NEAR(static_cast<double>(served.at(slot)), static_cast<double>(served.at(1)), 40000);
}

TEST_F(RunQueueTest, WeightsDivideTheEngine) {
  queue.set_weight(kB, 3);
  queue.push(0, kA);
  queue.push(1, kB);
  const auto served = serve(20000, {{0, 9000}, {1, 9000}}, {{0, kA}, {1, kB}});
  EXPECT_NEAR(static_cast<double>(served.at(1)) / static_cast<double>(served.at(0)), 3.0, 0.03);
}

TEST_F(RunQueueTest, WhoAsksForLittleGoesFirst) {
  for (std::uint32_t slot = 1; slot <= 16; ++slot) queue.push(slot, kB);
  for (int i = 0; i < 100; ++i) {
    queue.push(0, kA);
    // Its first turn may still fall into the round it waits out; then one other is served before.
    const std::uint32_t first = *queue.pop();
    if (first != 0) {
      queue.charge(kB, RunQueue::kQuantum);
      queue.push(first, kB);
      EXPECT_EQ(queue.pop(), 0u);
    }
    queue.charge(kA, 100);
    const std::uint32_t other = *queue.pop();
    EXPECT_NE(other, 0u);
    queue.charge(kB, RunQueue::kQuantum);
    queue.push(other, kB);
  }
}

TEST_F(RunQueueTest, OftenNewIsNotMoreThanItsShare) {
  // Empties its queue after each large turn and comes back at once.
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  queue.push(0, kA);
  queue.push(1, kB);
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t slot = *queue.pop();
    queue.charge(slot == 0 ? kA : kB, 50000);
    (slot == 0 ? a : b) += 50000;
    queue.push(slot, slot == 0 ? kA : kB);
  }
  EXPECT_NEAR(static_cast<double>(a) / static_cast<double>(b), 1.0, 0.01);
}

TEST_F(RunQueueTest, TellsCompetition) {
  EXPECT_FALSE(queue.contended());
  queue.push(0, kA);
  queue.push(1, kA);
  EXPECT_FALSE(queue.contended());
  queue.push(2, kC);
  EXPECT_TRUE(queue.contended());
}

TEST_F(RunQueueTest, TellsWhoIsServedAheadOfOthers) {
  queue.push(0, kA);
  queue.pop();
  EXPECT_FALSE(queue.overtaken());
  queue.charge(kA, RunQueue::kQuantum);
  queue.push(0, kA);
  queue.push(1, kB);
  queue.pop();  // A has used its turn up: B, which is new
  EXPECT_TRUE(queue.overtaken());
  queue.pop();
  EXPECT_FALSE(queue.overtaken());
}

TEST_F(RunQueueTest, LosesAndRepeatsNothing) {
  std::mt19937 random(7);
  std::set<std::uint32_t> queued;
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t slot = random() % 64;
    const TenantId tenant(static_cast<std::uint16_t>(slot % 4));
    switch (random() % 4) {
      case 0:
      case 1:
        queue.push(slot, tenant);
        queued.insert(slot);
        break;
      case 2:
        queue.remove(slot);
        queued.erase(slot);
        break;
      default:
        if (const auto got = queue.pop()) {
          EXPECT_EQ(queued.erase(*got), 1u);
          queue.charge(TenantId(static_cast<std::uint16_t>(*got % 4)), random() % 100000);
        } else {
          EXPECT_TRUE(queued.empty());
        }
    }
    ASSERT_EQ(queue.empty(), queued.empty());
  }
}

}  // namespace
}  // namespace softhca::schedule
