// SPDX-License-Identifier: Apache-2.0

// Minimum rates where commands take turns before the engine works for them: at the arbitrator and
// at the send queue scheduler.
#include <gtest/gtest.h>

#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/minimum_rates.hpp"
#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

constexpr TenantId kTenantBehind(0), kOtherTenant(1);
constexpr QosClassId kBehind(0), kOthers(1);

class MinimumTurns : public ::testing::Test {
 protected:
  MinimumTurns() {
    minimums.begin_step(Time{} + std::chrono::seconds(1));
    minimums.set(kBehind, kTenantBehind, {});
    minimums.set(kOthers, kOtherTenant, {});
  }
  void promise(std::uint64_t bytes_per_second) {
    minimums.set(kTenantBehind, {bytes_per_second, 1});
  }
  /// Gives the tenant what comes due in a second.
  void keep() { minimums.turn_over(kBehind, 0, 1'000'000, 1, {.tenant = true}); }

  MinimumRates minimums{2, 2, 8};
};

class MinimumStarts : public MinimumTurns {
 protected:
  MinimumStarts() {
    light = add(kBehind, kTenantBehind, 1);
    heavy = add(kOthers, kOtherTenant, 1000);
  }
  TvlId add(QosClassId qos_class, TenantId tenant, std::uint32_t weight) {
    return *table.add({.tenant = tenant,
                       .qos_class = qos_class,
                       .weight = weight,
                       .max_kick_list = 100,
                       .may_share = true});
  }
  void kick(TvlId tvl, int commands) {
    for (int i = 0; i < commands; ++i) ASSERT_TRUE(arbitrator.kick(tvl, PcbId(next_pcb++)));
  }
  TvlId start() {
    const auto started = arbitrator.next();
    EXPECT_TRUE(started);
    return started ? started->tvl : TvlId(99);
  }
  int starts_of_light(int starts) {
    int of_light = 0;
    for (int i = 0; i < starts; ++i) {
      const TvlId started = start();
      of_light += started == light;
      finish(started);
    }
    return of_light;
  }
  void finish(TvlId tvl) {
    arbitrator.return_execution(tvl);
    arbitrator.return_completion(tvl);
  }

  TvlTable table{{.max_tvls = 4, .execution_credits = 2, .completion_credits = 2}};
  KickArbitrator arbitrator{table, 400, &minimums};
  std::uint32_t next_pcb = 0;
  TvlId light, heavy;
};

TEST_F(MinimumStarts, WhoIsBehindStartsFirst) {
  promise(1'000'000);
  kick(heavy, 50);
  kick(light, 50);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(start(), light);
    finish(light);
  }
  keep();
  EXPECT_LE(starts_of_light(30), 1);  // one of a thousand, and one turn as a newcomer
}

/// Credits that come back go to the tenant that is behind, although others have waited longer.
TEST_F(MinimumStarts, CreditsThatComeBackAreItsFirst) {
  promise(1'000'000);
  kick(heavy, 10);
  EXPECT_EQ(start(), heavy);
  EXPECT_EQ(start(), heavy);
  EXPECT_FALSE(arbitrator.next());
  kick(light, 3);
  EXPECT_FALSE(arbitrator.next());
  for (int i = 0; i < 3; ++i) {
    finish(i == 0 ? heavy : light);
    ASSERT_TRUE(arbitrator.has_work());
    EXPECT_EQ(start(), light);
  }
  finish(light);
  EXPECT_EQ(start(), heavy);  // it has no more, and the others go on
}

TEST_F(MinimumStarts, AListThatEmptiesAndACommandTakenOut) {
  promise(1'000'000);
  kick(light, 2);
  kick(heavy, 2);
  EXPECT_TRUE(arbitrator.remove(PcbId(0)));
  EXPECT_EQ(start(), light);
  EXPECT_EQ(start(), heavy);
  finish(light);
  kick(light, 1);
  EXPECT_EQ(start(), light);
  EXPECT_FALSE(arbitrator.next());
}

/// A tenant that spends its minimum on work that moves no bytes starts in its normal turn.
TEST_F(MinimumStarts, NotForWhatComesToNothing) {
  promise(1'000'000);
  minimums.worked(kBehind, 2 << 20);
  kick(heavy, 50);
  kick(light, 50);
  EXPECT_LE(starts_of_light(30), 1);
}

class MinimumFetches : public MinimumTurns {
 protected:
  void open(std::uint32_t slot, QosClassId qos_class) {
    scheduler.open(QpSlot(slot), qos_class, 64);
    scheduler.ring(QpSlot(slot), 40);
  }
  std::uint32_t turn() {
    const auto next = scheduler.next();
    scheduler.fetched(next->slot, next->count, KickedIn::kOwnTvl);
    return next->slot.value;
  }

  OverflowMemory memory;
  SendQueueScheduler scheduler{
      {.max_queue_pairs = 8, .max_classes = 2, .quantum = 4, .minimums = &minimums}, memory};
};

TEST_F(MinimumFetches, ClassesThatAreBehindAreFirst) {
  open(0, kBehind);
  for (std::uint32_t slot = 1; slot < 6; ++slot) open(slot, kOthers);
  promise(1'000'000);
  EXPECT_EQ(turn(), 0u);
  EXPECT_EQ(turn(), 0u);
  keep();
  unsigned of_a = 0;
  for (int i = 0; i < 8; ++i) of_a += turn() == 0;
  EXPECT_EQ(of_a, 4u);  // classes go round
  promise(2'000'000);
  EXPECT_EQ(turn(), 0u);
  scheduler.block(QpSlot(0));
  EXPECT_NE(turn(), 0u);
}

TEST_F(MinimumFetches, AQueuePairThatIsBehindIsFirstInItsClass) {
  open(0, kOthers);
  open(1, kOthers);
  EXPECT_EQ(turn(), 0u);
  minimums.set_queue_pair(2, {1'000'000, 1});
  open(2, kOthers);
  EXPECT_EQ(turn(), 2u);
  EXPECT_EQ(turn(), 2u);
  scheduler.block(QpSlot(2));  // the kick list is full
  EXPECT_EQ(turn(), 1u);
  scheduler.unblock(QpSlot(2));
  EXPECT_EQ(turn(), 2u);
  minimums.turn_over(kOthers, 2, 1'000'000, 1, {});
  EXPECT_EQ(turn(), 2u);  // the turn that it had, and then in its turn
  EXPECT_EQ(turn(), 0u);
  EXPECT_EQ(turn(), 1u);
  EXPECT_EQ(turn(), 2u);
}

}  // namespace
}  // namespace softhca::schedule
