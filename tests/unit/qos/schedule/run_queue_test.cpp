// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/run_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace softhca::schedule {
namespace {

/// Tenants, and what of them is in no level.
constexpr TenantId kTenantA(0), kTenantB(1), kTenantC(2);
constexpr QosClassId kClassA(0), kClassB(1), kClassC(2);
/// Levels of tenant C: classes of their own.
constexpr QosClassId kC1(4), kC2(5);
constexpr std::uint16_t kTenants = 4, kClasses = 8;
constexpr std::uint32_t kSlots = 64;
constexpr std::uint64_t kLargest = 20000;  ///< piece of these tests

class RunQueueTest : public ::testing::Test {
 protected:
  RunQueueTest() {
    queue.reserve(kSlots, kTenants, kClasses);
    for (std::uint16_t i = 0; i < kTenants; ++i) queue.join(QosClassId(i), TenantId(i));
    queue.join(kC1, kTenantC);
    queue.join(kC2, kTenantC);
  }

  void push(std::uint32_t slot, QosClassId qos_class) {
    owner[slot] = qos_class;
    queue.push(slot, qos_class);
  }

  /// Serves once; the queue pair goes on for ever. Its number.
  std::uint32_t serve(std::uint64_t cost, bool more = true) {
    const std::uint32_t slot = *queue.pop();
    queue.served(slot, cost, more);
    work[owner.at(slot).value] += cost;
    return slot;
  }

  RunQueue queue;
  std::map<std::uint32_t, QosClassId> owner;
  std::map<std::uint16_t, std::uint64_t> work;  ///< by class
};

TEST_F(RunQueueTest, HoldsEachOnceAndInOrder) {
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.pop());
  queue.push(3, kClassA);
  queue.push(1, kClassA);
  queue.push(3, kClassA);
  EXPECT_TRUE(queue.contains(3));
  EXPECT_EQ(queue.pop(), 3u);
  EXPECT_FALSE(queue.contains(3));
  queue.served(3, 1, false);
  EXPECT_EQ(queue.pop(), 1u);
  queue.served(1, 1, false);
  EXPECT_FALSE(queue.pop());
  EXPECT_TRUE(queue.empty());
}

TEST_F(RunQueueTest, SharesByCostWhateverTheNumberOfQueuePairs) {
  push(0, kClassA);
  for (std::uint32_t slot = 1; slot <= 16; ++slot) push(slot, kClassB);
  std::map<std::uint32_t, std::uint64_t> turns;
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t slot = serve(queue.contains(0) ? kLargest : 5000);
    ++turns[slot];
    const auto [less, more] = std::minmax(work[kClassA.value], work[kClassB.value]);
    ASSERT_LE(more - less, 2 * kLargest);
  }
  for (std::uint32_t slot = 2; slot <= 16; ++slot)
    EXPECT_NEAR(static_cast<double>(turns[slot]), static_cast<double>(turns[1]), 1);
}

TEST_F(RunQueueTest, WeightsDivideTheEngine) {
  queue.set_tenant_weight(kTenantB, 3);
  queue.set_weight(kC1, 7);
  push(0, kClassA);
  push(1, kClassB);
  push(2, kC1);
  push(3, kC2);
  for (int i = 0; i < 50000; ++i) serve(9000);
  const auto ratio = [this](QosClassId a, QosClassId b) {
    return static_cast<double>(work[a.value]) / static_cast<double>(work[b.value]);
  };
  EXPECT_NEAR(ratio(kClassB, kClassA), 3.0, 0.01);
  EXPECT_NEAR(ratio(kC1, kC2), 7.0, 0.03);
  EXPECT_NEAR(static_cast<double>(work[kC1.value] + work[kC2.value]) /
                  static_cast<double>(work[kClassA.value]),
              1.0, 0.01);
}

/// Tenant A has two TVLs of different weight, tenant B none of its own.
class RunQueueOfTvls : public ::testing::Test {
 protected:
  static constexpr TvlId kHeavy{1}, kLight{2};
  RunQueueOfTvls() {
    queue.reserve(kSlots, kTenants, kClasses, 4);
    for (std::uint16_t i = 0; i < kTenants; ++i) queue.join(QosClassId(i), TenantId(i));
    queue.set_tvl(kHeavy, kClassA, 3);
    queue.set_tvl(kLight, kClassA, 1);
  }
  void serve(int times, std::uint64_t cost) {
    for (int i = 0; i < times; ++i) {
      const std::uint32_t slot = *queue.pop();
      queue.served(slot, cost, true);
      work[slot] += cost;
    }
  }
  double ratio(std::uint32_t a, std::uint32_t b) {
    return static_cast<double>(work[a]) / static_cast<double>(work[b]);
  }

  RunQueue queue;
  std::map<std::uint32_t, std::uint64_t> work;  ///< by slot
};

TEST_F(RunQueueOfTvls, DivideTheTimeOfTheirClassWhateverTheNumberOfQueuePairs) {
  queue.push(0, kClassA, kHeavy);
  for (std::uint32_t slot = 1; slot <= 4; ++slot) queue.push(slot, kClassA, kLight);
  queue.push(5, kClassB, kHeavy);  // a TVL of another class
  serve(40000, 9000);
  EXPECT_NEAR(ratio(0, 1), 12.0, 0.2);
  EXPECT_NEAR(ratio(1, 4), 1.0, 0.01);
  EXPECT_NEAR(ratio(5, 0), 4.0 / 3, 0.01);
  queue.set_tvl(kHeavy, kClassA, 1);
  work.clear();
  serve(40000, 9000);
  EXPECT_NEAR(ratio(0, 1), 4.0, 0.05);
}

TEST_F(RunQueueOfTvls, OneWithoutWorkLeavesItsPartToTheOthers) {
  queue.push(0, kClassA, kHeavy);
  queue.push(1, kClassA, kLight);
  queue.push(2, kClassB);
  queue.remove(0);
  EXPECT_FALSE(queue.contains(0));
  serve(2000, 9000);
  EXPECT_NEAR(ratio(1, 2), 1.0, 0.01);
  queue.push(0, kClassA, kHeavy);
  work.clear();
  serve(8000, 9000);
  EXPECT_NEAR(ratio(0, 1), 3.0, 0.1) << "it is owed nothing";
}

TEST_F(RunQueueOfTvls, OneMayComeToAnotherClass) {
  queue.push(0, kClassA, kHeavy);
  queue.remove(0);
  queue.set_tvl(kHeavy, kClassB, 2);
  queue.push(0, kClassA, kHeavy);  // none of its own
  queue.push(1, kClassA, kLight);
  queue.push(2, kClassB, kHeavy);
  queue.push(3, kClassB);
  serve(8000, 9000);
  EXPECT_NEAR(ratio(0, 1), 1.0, 0.01);
  EXPECT_NEAR(ratio(2, 3), 2.0, 0.05);
}

TEST_F(RunQueueTest, ALevelThatFloodsStarvesNoSibling) {
  for (std::uint32_t slot = 8; slot < kSlots; ++slot) push(slot, kC1);
  push(0, kC2);
  push(1, kClassA);
  for (int i = 0; i < 3000; ++i) {
    serve(kLargest);
    const auto [less, more] = std::minmax(work[kC1.value], work[kC2.value]);
    ASSERT_LE(more - less, 2 * kLargest);
  }
  EXPECT_NEAR(static_cast<double>(work[kClassA.value]) /
                  static_cast<double>(work[kC1.value] + work[kC2.value]),
              1.0, 0.01);
}

TEST_F(RunQueueTest, WhoAsksForLittleWaitsForThePieceInServiceAlone) {
  for (std::uint32_t slot = 1; slot <= 16; ++slot) push(slot, slot % 2 ? kClassB : kC1);
  for (int i = 0; i < 300; ++i) serve(1 + static_cast<std::uint64_t>(i) * 37 % kLargest);
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t in_service = *queue.pop();
    // What it takes to take its command in does not defer the command.
    queue.charge(kClassA, 50);
    push(0, kClassA);
    queue.served(in_service, kLargest, true);
    EXPECT_EQ(serve(100, false), 0u);
    EXPECT_TRUE(queue.overtaken());
    for (int j = 0; j < 3; ++j) EXPECT_NE(serve(kLargest), 0u);
  }
}

TEST_F(RunQueueTest, WhoAsksForLessThanItsShareWaitsForOnePieceWhileVirtualTimeStands) {
  // Many with equal tags, so that virtual time goes on at every 15th piece.
  queue.set_tenant_weight(kTenantA, 16);
  queue.reserve(kSlots, 20, 24);
  for (std::uint16_t i = 8; i < 20; ++i) queue.join(QosClassId(i), TenantId(i));
  std::uint32_t slot = 1;
  for (const QosClassId qos_class : {kClassB, kC1, QosClassId(3)}) push(slot++, qos_class);
  for (std::uint16_t i = 8; i < 20; ++i) push(slot++, QosClassId(i));
  constexpr std::uint64_t kPiece = 5120;
  for (std::uint32_t i = 1; i < slot; ++i) serve(kPiece);
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t in_service = *queue.pop();
    push(0, kClassA);
    queue.served(in_service, kPiece, true);
    EXPECT_EQ(serve(kPiece / 2, false), 0u);
    EXPECT_NE(serve(kPiece), 0u);
  }
}

TEST_F(RunQueueTest, OftenNewIsNotMoreThanItsShare) {
  // Empties its queue after each large turn and comes back at once.
  push(0, kClassA);
  push(1, kClassB);
  for (int i = 0; i < 20000; ++i)
    if (serve(kLargest, queue.contains(0)) == 0) push(0, kClassA);
  EXPECT_NEAR(static_cast<double>(work[kClassA.value]) / static_cast<double>(work[kClassB.value]),
              1.0, 0.01);
}

TEST_F(RunQueueTest, NobodyPaysForWhatNobodyElseWanted) {
  push(0, kClassA);
  for (int i = 0; i < 1000; ++i) serve(kLargest);
  queue.charge(kClassA, 1000 * kLargest);
  serve(kLargest, false);
  for (int i = 0; i < 1000; ++i) queue.charge(kClassA, kLargest);
  push(0, kClassA);
  push(1, kClassB);
  work.clear();
  for (int i = 0; i < 1000; ++i) serve(kLargest);
  EXPECT_NEAR(static_cast<double>(work[kClassA.value]), static_cast<double>(work[kClassB.value]),
              2 * kLargest);
}

TEST_F(RunQueueTest, WhatIsNotServiceCountsAsWell) {
  push(0, kClassA);
  push(1, kClassB);
  for (int i = 0; i < 10000; ++i) {
    if (serve(1000) != 0) continue;
    queue.charge(kClassA, 2000);
  }
  EXPECT_NEAR(static_cast<double>(work[kClassB.value]) / static_cast<double>(work[kClassA.value]),
              3.0, 0.01);
}

TEST_F(RunQueueTest, WhoIsAheadBeginsNothingNew) {
  EXPECT_TRUE(queue.may_begin(kClassA, 0));
  queue.charge(kClassA, 5000);
  EXPECT_TRUE(queue.may_begin(kClassA, 0)) << "no other class wants anything";
  push(1, kClassB);
  EXPECT_TRUE(queue.may_begin(kClassA, 0)) << "no other class wanted that time";
  queue.charge(kClassA, FairShare::kSlack + 5000);
  EXPECT_FALSE(queue.may_begin(kClassA, 4999));
  EXPECT_TRUE(queue.may_begin(kClassA, 5000));
  while (!queue.may_begin(kClassA, 0)) serve(1000);
  EXPECT_GE(work[kClassB.value], 5000u);
  EXPECT_LE(work[kClassB.value], 5000 + FairShare::kSlack + 2000);
  // The same holds for two levels of one tenant.
  push(2, kC1);
  queue.charge(kC2, FairShare::kSlack + 10000);
  EXPECT_FALSE(queue.may_begin(kC2, 9999));
  EXPECT_TRUE(queue.may_begin(kC1, 10000));
}

TEST_F(RunQueueTest, TellsCompetition) {
  EXPECT_FALSE(queue.contended(kClassA));
  push(0, kClassA);
  push(1, kClassA);
  EXPECT_FALSE(queue.contended(kClassA));
  EXPECT_TRUE(queue.contended(kClassB));
  push(2, kClassB);
  EXPECT_TRUE(queue.contended(kClassA));
  queue.remove(2);
  push(3, kC1);
  EXPECT_FALSE(queue.contended(kClassB) && !queue.contended(kC1));
  queue.remove(0);
  queue.remove(1);
  EXPECT_FALSE(queue.contended(kC1));
  EXPECT_TRUE(queue.contended(kC2)) << "its sibling";
}

TEST_F(RunQueueTest, TellsWhoIsServedAheadOfOthers) {
  push(0, kClassA);
  serve(kLargest);
  EXPECT_FALSE(queue.overtaken()) << "nobody waited";
  push(1, kClassB);
  EXPECT_EQ(serve(kLargest), 1u);
  EXPECT_TRUE(queue.overtaken());
  for (int i = 0; i < 10; ++i) {
    serve(kLargest);
    EXPECT_FALSE(queue.overtaken()) << "both go on";
  }
}

TEST_F(RunQueueTest, GoesOnWhenVirtualTimeStartsAnew) {
  queue.set_weight(kC1, 50);
  push(0, kClassA);
  push(1, kClassB);
  push(2, kC1);
  push(3, kC2);
  const std::uint64_t huge = std::uint64_t{1} << 50;
  for (int i = 0; i < 6000; ++i) serve(huge);
  EXPECT_NEAR(static_cast<double>(work[kClassA.value]) / static_cast<double>(work[kClassB.value]),
              1.0, 0.01);
  const auto c = static_cast<double>(work[kC1.value] + work[kC2.value]);
  EXPECT_NEAR(c / static_cast<double>(work[kClassB.value]), 1.0, 0.01);
  EXPECT_NEAR(c / static_cast<double>(work[kC2.value]), 51, 2);
}

TEST_F(RunQueueTest, AClassMayComeToAnotherTenant) {
  push(0, kC1);
  serve(kLargest, false);
  queue.join(kC1, kTenantB);
  push(0, kC1);
  push(1, kClassB);
  push(2, kClassC);
  for (int i = 0; i < 3000; ++i) serve(kLargest);
  EXPECT_NEAR(static_cast<double>(work[kClassC.value]) / static_cast<double>(work[kClassB.value]),
              2.0, 0.01);
}

/// Work of random cost that comes and goes, of classes with random weights. Two competitors are two
/// tenants, or two classes of one tenant. If both have had work all the time, their service divided
/// by weight must be equal within a bound. The bound is that of start-time fair queuing, the
/// largest cost of each, plus the lead that a newcomer may have.
class RunQueueModel {
 public:
  explicit RunQueueModel(unsigned seed) : random_(seed) {
    queue_.reserve(kSlots, kTenants, kClasses);
    for (std::uint16_t i = 0; i < kClasses; ++i) {
      queue_.join(QosClassId(i), TenantId(i % kTenants));
      weight_[i] = 1 + random_() % 5;
      queue_.set_weight(QosClassId(i), weight_[i]);
    }
    for (std::uint16_t i = 0; i < kTenants; ++i) {
      tenant_weight_[i] = 1 + random_() % 5;
      queue_.set_tenant_weight(TenantId(i), tenant_weight_[i]);
    }
  }

  void step() {
    const std::uint32_t slot = random_() % kSlots;
    const std::uint16_t qos_class = slot % kClasses;
    switch (random_() % 8) {
      case 0:
        queue_.push(slot, QosClassId(qos_class));
        queued_.insert(slot);
        break;
      case 1:
        if (random_() % 4 != 0) break;
        queue_.remove(slot);
        queued_.erase(slot);
        break;
      default:
        serve();
    }
    ASSERT_EQ(queue_.empty(), queued_.empty());
    check();
  }

 private:
  void serve() {
    const auto slot = queue_.pop();
    ASSERT_EQ(slot.has_value(), !queued_.empty());
    if (!slot) return;
    ASSERT_EQ(queued_.erase(*slot), 1u);
    const std::uint64_t cost = 1 + random_() % kLargest;
    const bool more = random_() % 16 != 0;
    queue_.served(*slot, cost, more);
    if (more) queued_.insert(*slot);
    work_[*slot % kClasses] += cost;
  }

  bool has_work(std::uint32_t qos_class) const {
    return std::any_of(queued_.begin(), queued_.end(),
                       [qos_class](std::uint32_t slot) { return slot % kClasses == qos_class; });
  }

  /// Restarts the comparison of those that were without work, checks that of all others.
  void check() {
    for (std::uint32_t a = 0; a < kClasses; ++a)
      for (std::uint32_t b = 0; b < a; ++b)
        if (a % kTenants == b % kTenants)
          compare(
              party_[a][b], has_work(a) && has_work(b), service(a), service(b),
              double(kLargest) / weight_[a] + double(kLargest) / weight_[b] + FairShare::kSlack);
    for (std::uint32_t a = 0; a < kTenants; ++a)
      for (std::uint32_t b = 0; b < a; ++b)
        compare(tenant_[a][b], tenant_has_work(a) && tenant_has_work(b), tenant_service(a),
                tenant_service(b),
                double(kLargest) / tenant_weight_[a] + double(kLargest) / tenant_weight_[b] +
                    FairShare::kSlack);
  }

  struct Pair {
    bool running = false;
    double low = 0, high = 0;  ///< of the difference since both have work
  };
  void compare(Pair& pair, bool both, double a, double b, double bound) {
    const double difference = a - b;
    if (!both || !pair.running) {
      pair = {both, difference, difference};
      return;
    }
    pair.low = std::min(pair.low, difference);
    pair.high = std::max(pair.high, difference);
    ASSERT_LE(pair.high - pair.low, bound + 1e-3 * bound);
  }

  double service(std::uint32_t qos_class) const {
    return double(work_[qos_class]) / weight_[qos_class];
  }
  bool tenant_has_work(std::uint32_t t) const { return has_work(t) || has_work(t + kTenants); }
  double tenant_service(std::uint32_t t) const {
    return double(work_[t] + work_[t + kTenants]) / tenant_weight_[t];
  }

  std::mt19937 random_;
  RunQueue queue_;
  std::set<std::uint32_t> queued_;
  std::uint32_t weight_[kClasses] = {};
  std::uint32_t tenant_weight_[kTenants] = {};
  std::uint64_t work_[kClasses] = {};
  Pair party_[kClasses][kClasses];
  Pair tenant_[kTenants][kTenants];
};

TEST(RunQueueModelTest, AnyTwoWithWorkGetTheSameWithinABound) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    RunQueueModel model(seed);
    for (int i = 0; i < 10000; ++i) {
      model.step();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace softhca::schedule
