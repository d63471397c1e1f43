// SPDX-License-Identifier: Apache-2.0

// Minimum rates, by simulated time: an engine that moves a byte in a nanosecond serves a run queue.
#include "daemon/qos/schedule/minimum_rates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "daemon/qos/schedule/run_queue.hpp"

namespace softhca::schedule {
namespace {

constexpr TenantId kTenantOfA(0), kTenantOfB(1), kTenantOfC(2);
constexpr QosClassId kOfA(0), kOfB(1), kOfC(2);
constexpr QosClassId kLevelOne(4), kLevelTwo(5);  ///< levels of tenant C
constexpr TvlId kTvlOfNone(0);
constexpr std::uint64_t kBytesOfSecond = 1'000'000'000;  ///< bytes that are moved in a second
constexpr std::uint64_t kPieceOfTurn = 16384;
constexpr std::uint64_t kBurstOfAll = 1 << 20;

class MinimumRatesTest : public ::testing::Test {
 protected:
  struct Worker {
    QosClassId qos_class;
    TvlId tvl = kTvlOfNone;
    std::uint64_t piece = kPieceOfTurn;  ///< 0: its turns come to nothing
    std::uint64_t moved = 0;
  };

  MinimumRatesTest() {
    queue.reserve(64, 4, 8, 4);
    queue.heed(minimums, true);
    for (const TenantId tenant : {kTenantOfA, kTenantOfB, kTenantOfC}) {
      queue.join(QosClassId(tenant.value), tenant);
      minimums.set(QosClassId(tenant.value), tenant, {});
    }
    for (const QosClassId level : {kLevelOne, kLevelTwo}) {
      queue.join(level, kTenantOfC);
      minimums.set(level, kTenantOfC, {});
    }
    now += std::chrono::seconds(10);
    minimums.begin_step(now);
  }

  /// A part of what the engine can do.
  static Rate part(double of_all) {
    return {static_cast<std::uint64_t>(of_all * static_cast<double>(kBytesOfSecond)), kBurstOfAll};
  }
  void add(std::uint32_t slot, QosClassId qos_class, TvlId tvl = kTvlOfNone,
           std::uint64_t piece = kPieceOfTurn) {
    workers[slot] = {qos_class, tvl, piece};
    queue.push(slot, qos_class, tvl);
  }
  /// A turn; true: it moved something.
  void turn(bool more = true) {
    const auto slot = queue.pop();
    ASSERT_TRUE(slot);
    Worker& worker = workers.at(*slot);
    const std::uint64_t cost = std::max<std::uint64_t>(worker.piece, 1024);
    worker.moved += worker.piece;
    minimums.turn_over(worker.qos_class, *slot, worker.piece, cost, queue.went_first());
    queue.served(*slot, cost, more, worker.piece == 0);
    last = *slot;
    now += Duration(static_cast<Duration::rep>(cost));
    minimums.begin_step(now);
  }
  void run(Duration time) {
    for (const Time end = now + time; now < end;) turn();
  }
  void forget_moved() {
    for (auto& [slot, worker] : workers) worker.moved = 0;
  }
  /// What part of the engine's second a queue pair, or a class, has had.
  double part_of(std::uint32_t slot) const {
    return static_cast<double>(workers.at(slot).moved) / static_cast<double>(kBytesOfSecond);
  }
  double part_of(QosClassId qos_class) const {
    double sum = 0;
    for (const auto& [slot, worker] : workers)
      if (worker.qos_class == qos_class) sum += part_of(slot);
    return sum;
  }

  static constexpr Duration kRun = std::chrono::seconds(1);

  MinimumRates minimums{4, 8, 64};
  RunQueue queue;
  std::map<std::uint32_t, Worker> workers;
  Time now{};
  std::uint32_t last = 0;
};

TEST_F(MinimumRatesTest, HoldsBesideManyOfGreatWeight) {
  minimums.set(kTenantOfA, part(0.25));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(0, kOfA);
  for (std::uint32_t slot = 1; slot <= 16; ++slot) add(slot, kOfB);
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.25, 0.001);
  EXPECT_NEAR(part_of(kOfB), 0.75, 0.001);
}

TEST_F(MinimumRatesTest, IsAFloorAndNotAnAddition) {
  minimums.set(kTenantOfA, part(0.25));
  add(0, kOfA);
  add(1, kOfB);
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.5, 0.005);
  queue.set_tenant_weight(kTenantOfB, 9);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.25, 0.005);
}

TEST_F(MinimumRatesTest, TheRestIsSharedByWeight) {
  minimums.set(kTenantOfA, part(0.5));
  queue.set_tenant_weight(kTenantOfB, 30);
  queue.set_tenant_weight(kTenantOfC, 10);
  add(0, kOfA);
  add(1, kOfB);
  add(2, kOfC);
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.5, 0.001);
  EXPECT_NEAR(part_of(kOfB) / part_of(kOfC), 3, 0.02);
  EXPECT_NEAR(part_of(kOfB) + part_of(kOfC), 0.5, 0.001);
}

TEST_F(MinimumRatesTest, WhatIsNotUsedIsForAll) {
  minimums.set(kTenantOfA, part(0.9));
  queue.set_tenant_weight(kTenantOfC, 3);
  add(1, kOfB);
  add(2, kOfC);
  run(kRun);
  EXPECT_NEAR(part_of(kOfB), 0.25, 0.001);
  EXPECT_NEAR(part_of(kOfC), 0.75, 0.001);
}

TEST_F(MinimumRatesTest, ALevelHasItsPartOfItsTenants) {
  minimums.set(kTenantOfC, part(0.5));
  minimums.set(kLevelOne, kTenantOfC, part(0.2));
  queue.set_tenant_weight(kTenantOfB, 1000);
  queue.set_weight(kLevelTwo, 1000);
  add(0, kLevelOne);
  add(1, kLevelTwo);
  add(2, kOfB);
  run(kRun);
  EXPECT_NEAR(part_of(kLevelOne) + part_of(kLevelTwo), 0.5, 0.002);
  EXPECT_NEAR(part_of(kLevelOne), 0.2, 0.002);
}

/// The minimum of a level holds in its tenant's share by weight as well.
TEST_F(MinimumRatesTest, ALevelIsFirstInItsTenantsShare) {
  minimums.set(kTenantOfC, part(0.2));
  minimums.set(kLevelOne, kTenantOfC, part(0.2));
  queue.set_weight(kLevelTwo, 1000);
  add(0, kLevelOne);
  add(1, kLevelTwo);
  add(2, kOfB);
  run(kRun);
  EXPECT_NEAR(part_of(kLevelOne) + part_of(kLevelTwo), 0.5, 0.005);
  EXPECT_NEAR(part_of(kLevelOne), 0.2, 0.002);
}

TEST_F(MinimumRatesTest, AQueuePairHasItsPart) {
  minimums.set(kTenantOfA, part(0.4));
  minimums.set_queue_pair(0, part(0.2));
  for (std::uint32_t slot = 0; slot <= 16; ++slot) add(slot, kOfA);
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(20, kOfB);
  run(kRun);
  EXPECT_NEAR(part_of(std::uint32_t{0}), 0.2, 0.005);
  EXPECT_NEAR(part_of(kOfA), 0.4, 0.002);
  EXPECT_EQ(minimums.of_queue_pair(0), part(0.2));
  minimums.set_queue_pair(0, {});
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(std::uint32_t{0}), 0.4 / 17, 0.005);
}

/// More than there is, as a slower machine may have promised: in proportion.
TEST_F(MinimumRatesTest, WhatIsTooMuchIsShortInProportion) {
  minimums.set(kTenantOfA, part(0.6));
  minimums.set(kTenantOfB, part(1.2));
  add(0, kOfA);
  add(1, kOfB);
  run(kRun);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kOfB) / part_of(kOfA), 2, 0.1);
}

/// A minimum that is more than the engine can do leaves others 1/16, for tenants and within one,
/// and at no time nothing.
TEST_F(MinimumRatesTest, WhatIsTooMuchLeavesOthersAPart) {
  minimums.set(kTenantOfA, part(1.5));
  minimums.set(kTenantOfC, part(0.1));
  minimums.set(kLevelOne, kTenantOfC, part(1.2));
  queue.set_tenant_weight(kTenantOfB, 100);
  add(0, kOfA);
  add(1, kOfB);
  run(kRun);
  for (int i = 0; i < 10; ++i) {
    forget_moved();
    run(std::chrono::milliseconds(32));
    EXPECT_NEAR(part_of(kOfB) / 0.032, 1 / 16., 0.03);
  }
  queue.remove(0);
  queue.remove(1);
  workers.clear();
  add(2, kLevelOne);
  add(3, kLevelTwo);
  queue.set_weight(kLevelTwo, 100);
  run(kRun);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kLevelTwo), 1 / 16., 0.01);
}

/// After an idle time a class is owed at most a burst. Others wait no longer than that takes.
TEST_F(MinimumRatesTest, ARestIsWorthABurst) {
  minimums.set(kTenantOfA, part(0.5));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(1, kOfB);
  run(kRun);
  add(0, kOfA);
  std::uint64_t in_a_row = 0;
  for (turn(); last == 0; turn()) in_a_row += kPieceOfTurn;
  // While it sends, half of what it sends comes due anew: it sends twice the burst.
  EXPECT_GE(in_a_row, 2 * kBurstOfAll - 2 * kPieceOfTurn);
  EXPECT_LE(in_a_row, 2 * kBurstOfAll + 2 * kPieceOfTurn);
}

/// The commands of a tenant wait for their peers most of the time, and may then all be sent. The
/// tenant gets what came due meanwhile.
TEST_F(MinimumRatesTest, AWaitForPeersIsNoRest) {
  minimums.set(kTenantOfA, part(0.2));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(1, kOfB);
  minimums.began(kOfA);
  workers[0] = {kOfA};
  const Time begin = now;
  for (int i = 0; i < 25; ++i) {
    run(std::chrono::milliseconds(30));
    queue.push(0, kOfA, kTvlOfNone);
    run(std::chrono::milliseconds(10));
    queue.remove(0);
  }
  EXPECT_NEAR(part_of(kOfA) / std::chrono::duration<double>(now - begin).count(), 0.2, 0.005);
}

/// A tenant is idle when its last command has ended.
TEST_F(MinimumRatesTest, ARestBeginsWithTheEndOfTheLastCommand) {
  minimums.set(kTenantOfA, part(0.5));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(1, kOfB);
  minimums.began(kOfA);
  minimums.began(kOfA);
  run(std::chrono::milliseconds(10));
  minimums.ended(kOfA, false, false);
  run(std::chrono::milliseconds(10));
  minimums.ended(kOfA, false, false);
  run(kRun);
  minimums.began(kOfA);
  add(0, kOfA);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(0), 0.51, 0.001) << "and what was due before the rest";
}

/// However long it is; and the minimums of others hold.
TEST_F(MinimumRatesTest, ALongWaitForPeersIsWorthTheLongestLag) {
  minimums.set(kTenantOfA, part(0.5));
  minimums.set(kTenantOfC, part(0.25));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(1, kOfB);
  add(2, kOfC);
  minimums.began(kOfA);
  run(kRun);
  forget_moved();
  add(0, kOfA);
  run(std::chrono::milliseconds(600));
  EXPECT_NEAR(part_of(kOfA), 0.3 + 0.05, 0.005);
  EXPECT_NEAR(part_of(kOfC), 0.15, 0.002);
}

TEST_F(MinimumRatesTest, CommandsGoWithTheClassToAnotherTenant) {
  minimums.began(kLevelOne);
  minimums.forget(kTenantOfC);
  minimums.set(kLevelOne, kTenantOfA, {});
  minimums.set(kTenantOfA, part(0.5));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(1, kOfB);
  run(std::chrono::milliseconds(20));
  add(0, kOfA);
  std::uint64_t in_a_row = 0;
  for (turn(); last == 0; turn()) in_a_row += kPieceOfTurn;
  EXPECT_NEAR(static_cast<double>(in_a_row), 20e6, 1e6) << "they were under way";
  minimums.ended(kLevelOne, false, false);
}

/// As long as it has work it catches up with what it had no chance of, up to the longest lag.
TEST_F(MinimumRatesTest, APauseOfTheEngineIsCaughtUp) {
  minimums.set(kTenantOfA, part(0.5));
  queue.set_tenant_weight(kTenantOfB, 1000);
  add(0, kOfA);
  add(1, kOfB);
  run(kRun);
  now += std::chrono::milliseconds(40);
  minimums.begin_step(now);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(0), 0.52, 0.001);
}

/// What it had beyond its minimum, by its weight, is held against it for no longer than a burst.
TEST_F(MinimumRatesTest, PlentyIsForgotten) {
  minimums.set(kTenantOfA, part(0.25));
  add(0, kOfA);
  run(std::chrono::seconds(60));
  queue.set_tenant_weight(kTenantOfB, 1000);
  for (std::uint32_t slot = 1; slot <= 16; ++slot) add(slot, kOfB);
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.25, 0.002);
}

/// What it had before others is not held against it when it has no minimum any more.
TEST_F(MinimumRatesTest, LeavesNoDebtBehind) {
  minimums.set(kTenantOfA, part(0.9));
  add(0, kOfA);
  add(1, kOfB);
  run(kRun);
  minimums.set(kTenantOfA, {});
  EXPECT_FALSE(minimums.any());
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.5, 0.002);
}

/// Turns in which nothing moves must not keep others from theirs.
TEST_F(MinimumRatesTest, WhatComesToNothingIsNotFirst) {
  minimums.set(kTenantOfA, part(0.5));
  for (std::uint32_t slot = 0; slot < 8; ++slot) add(slot, kOfA, kTvlOfNone, 0);
  add(10, kOfB);
  run(kRun);
  EXPECT_TRUE(minimums.comes_to_nothing(kOfA));
  EXPECT_NEAR(part_of(kOfB), 0.5, 0.01);  // the other half of the time went to its turns
  add(0, kOfA);                           // now it has something to move
  workers[0].piece = kPieceOfTurn;
  queue.set_tenant_weight(kTenantOfB, 10);
  run(kRun);
  EXPECT_FALSE(minimums.comes_to_nothing(kOfA));
}

TEST_F(MinimumRatesTest, WorkOutsideTurnsIsBoundedByWhatMoves) {
  minimums.set(kTenantOfA, part(0.5));
  std::uint64_t first = 0;
  for (; minimums.behind(kOfA); first += 512) {
    minimums.worked(kOfA, 512);
    ASSERT_LT(first, 4u << 20);
  }
  EXPECT_EQ(first, (1u << 20) + 512);
  EXPECT_EQ(minimums.first_cost(kTenantOfA), first);
  minimums.turn_over(kOfA, 0, 4096, 4096, {});
  now += std::chrono::milliseconds(10);
  minimums.begin_step(now);
  EXPECT_TRUE(minimums.behind(kOfA));
}

/// One that moves nothing because its weight gives it no turn must not stay without its minimum.
TEST_F(MinimumRatesTest, WhatCameToNothingIsForgiven) {
  minimums.set(kTenantOfA, part(0.5));
  minimums.worked(kOfA, 1u << 30);
  EXPECT_FALSE(minimums.behind(kOfA));
  add(0, kOfA);
  add(1, kOfB);
  queue.set_tenant_weight(kTenantOfB, 1000);
  queue.charge(kOfA, 1u << 30);  // by its weight it has no turn in this test
  queue.push(1, kOfB);
  run(std::chrono::milliseconds(400));
  forget_moved();
  run(kRun);
  EXPECT_NEAR(part_of(kOfA), 0.5, 0.01);
}

/// Compares with a model, with random weights, minimums and loads. Each tenant with work gets its
/// minimum where the minimums fit. The engine is never idle while there is work.
TEST_F(MinimumRatesTest, HoldsForRandomLoads) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 50; ++round) {
    std::vector<double> asked;
    double left = 0.95;
    for (std::uint16_t i = 0; i < 3; ++i) {
      asked.push_back(left * static_cast<double>(below(100)) / 150);
      left -= asked.back();
      minimums.set(TenantId(i), part(asked.back()));
      queue.set_tenant_weight(TenantId(i), static_cast<std::uint32_t>(1 + below(1000)));
    }
    for (auto& [slot, worker] : workers) queue.remove(slot);
    workers.clear();
    for (std::uint16_t i = 0; i < 3; ++i)
      for (std::uint32_t n = 0; n < 1 + below(8); ++n)
        add(i * 8u + n, QosClassId(i), kTvlOfNone, 512 + below(kPieceOfTurn));
    run(std::chrono::milliseconds(50));
    forget_moved();
    const Time begin = now;
    run(kRun);
    const double seconds = std::chrono::duration<double>(now - begin).count();
    for (std::uint16_t i = 0; i < 3; ++i) {
      // Turns of less than 1024 bytes cost more than they move.
      ASSERT_GE(part_of(QosClassId(i)), asked[i] * seconds - 0.004) << "round " << round;
    }
  }
}

TEST_F(MinimumRatesTest, RemovedClass_LeavesItsNumberToAnotherTenant) {
  minimums.set(kLevelOne, kTenantOfC, part(0.5));
  EXPECT_TRUE(minimums.covers(kLevelOne));
  minimums.forget(kLevelOne);
  EXPECT_FALSE(minimums.any());
  EXPECT_FALSE(minimums.behind(kLevelOne));
  minimums.set(kLevelOne, kTenantOfA, {});
  minimums.set(kTenantOfA, part(0.5));
  now += std::chrono::milliseconds(1);
  minimums.begin_step(now);
  EXPECT_TRUE(minimums.behind(kLevelOne)) << "it is of the other tenant now";
}

TEST_F(MinimumRatesTest, ATenantThatGoesLeavesNothing) {
  minimums.set(kTenantOfC, part(0.5));
  minimums.set(kLevelOne, kTenantOfC, part(0.25));
  EXPECT_TRUE(minimums.covers(kLevelTwo));
  EXPECT_EQ(minimums.covered().size(), 3u);
  minimums.forget(kTenantOfC);
  EXPECT_FALSE(minimums.any());
  EXPECT_FALSE(minimums.covers(kLevelOne));
  EXPECT_TRUE(minimums.covered().empty());
}

}  // namespace
}  // namespace softhca::schedule
