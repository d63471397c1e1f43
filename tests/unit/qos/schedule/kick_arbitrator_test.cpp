// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/kick_arbitrator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kPcbs = 400;

/// An arbitrator, and PCBs handed to it in order 0, 1, 2, ...
class Bench {
 public:
  Bench(std::uint32_t execution, std::uint32_t completion)
      : table({.max_tvls = 8, .execution_credits = execution, .completion_credits = completion}),
        arbitrator(table, kPcbs) {}

  TvlId add(std::uint32_t weight, std::uint32_t execution, std::uint32_t completion,
            bool may_share = true, std::uint32_t list = kPcbs) {
    return *table.add({.weight = weight,
                       .max_kick_list = list,
                       .execution_guaranteed = execution,
                       .completion_guaranteed = completion,
                       .may_share = may_share});
  }

  void kick(TvlId tvl, int commands = 1) {
    for (int i = 0; i < commands; ++i) ASSERT_TRUE(arbitrator.kick(tvl, PcbId(next_pcb++)));
  }

  /// TVLs of the next starts, as letters; each command ends at once.
  std::string run(int starts) {
    std::string order;
    while (starts-- > 0) {
      const auto start = arbitrator.next();
      if (!start) break;
      order += static_cast<char>('A' + start->tvl.value);
      finish(start->tvl);
    }
    return order;
  }

  /// Starts all that can be started; nothing ends.
  std::map<TvlId, int> flood() {
    std::map<TvlId, int> started;
    while (const auto start = arbitrator.next()) ++started[start->tvl];
    return started;
  }

  void finish(TvlId tvl) {
    arbitrator.return_execution(tvl);
    arbitrator.return_completion(tvl);
  }

  TvlTable table;
  KickArbitrator arbitrator;
  std::uint32_t next_pcb = 0;
};

TEST(KickArbitrator, NothingToStart) {
  Bench bench(4, 4);
  EXPECT_FALSE(bench.arbitrator.has_work());
  EXPECT_FALSE(bench.arbitrator.next());
}

TEST(KickArbitrator, CommandsOfAClosedTvlGoOnInOrderWithAnother) {
  Bench bench(1, 8);
  const TvlId a = bench.add(1, 1, 4);
  const TvlId b = bench.add(1, 0, 2, true, 2);
  bench.kick(a, 5);
  ASSERT_EQ(bench.arbitrator.next()->pcb, PcbId(0));  // and holds the only execution credit
  ASSERT_TRUE(bench.table.close(a));
  while (const auto pcb = bench.arbitrator.first(a)) bench.arbitrator.move(*pcb, b);
  bench.arbitrator.refresh();
  EXPECT_FALSE(bench.arbitrator.kick(b, PcbId(99)));  // its list is longer than it may be
  bench.finish(a);
  for (std::uint32_t i = 1; i < 5; ++i) {
    const auto start = bench.arbitrator.next();
    ASSERT_TRUE(start);
    EXPECT_EQ(start->tvl, b);
    EXPECT_EQ(start->pcb, PcbId(i));
    bench.finish(b);
  }
  EXPECT_TRUE(bench.table.remove(a));
}

TEST(KickArbitrator, FirstInFirstOutWithinALane) {
  Bench bench(4, 4);
  const TvlId a = bench.add(1, 4, 4);
  bench.kick(a, 4);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(bench.arbitrator.next()->pcb, PcbId(i));
  EXPECT_FALSE(bench.arbitrator.next());
}

TEST(KickArbitrator, TurnsGoByWeight) {
  Bench bench(4, 4);
  bench.kick(bench.add(3, 0, 0), 50);
  bench.kick(bench.add(1, 0, 0), 50);
  bench.kick(bench.add(2, 0, 0), 50);
  EXPECT_EQ(bench.run(12), "AAABCCAAABCC");
}

TEST(KickArbitrator, TheWeightsHoldWhenCreditsAreWhatIsShort) {
  Bench bench(1, 4);
  bench.kick(bench.add(3, 0, 0), 100);
  bench.kick(bench.add(1, 0, 0), 100);
  std::string order;
  for (int i = 0; i < 80; ++i) {
    const auto start = bench.arbitrator.next();
    ASSERT_TRUE(start);
    order += static_cast<char>('A' + start->tvl.value);
    ASSERT_FALSE(bench.arbitrator.next());
    bench.finish(start->tvl);
  }
  EXPECT_EQ(order.substr(0, 8), "AAABAAAB");
  EXPECT_EQ(std::count(order.begin(), order.end(), 'A'), 60);
}

TEST(KickArbitrator, ACommandThatComesToAnEmptyListNeedNotWaitForARound) {
  Bench bench(4, 4);
  const TvlId a = bench.add(1, 0, 0), b = bench.add(1, 0, 0), quiet = bench.add(1, 0, 0);
  bench.kick(a, 50);
  bench.kick(b, 50);
  EXPECT_EQ(bench.run(4), "ABAB");
  bench.kick(quiet, 1);
  EXPECT_EQ(bench.run(4), "CABA");
  bench.kick(quiet, 1);
  EXPECT_EQ(bench.run(1), "C") << "a round is over in which it took no turn";
  bench.kick(quiet, 1);
  EXPECT_EQ(bench.run(3), "BAC") << "it has had its turn in this round";
}

/// A lane that hands over one command after the other, each when the one before has started.
TEST(KickArbitrator, WhoComesOftenHasNoMoreThanItsWeight) {
  for (const std::uint32_t weight : {1u, 2u, 5u, 16u}) {
    Bench bench(4, 4);
    for (int i = 0; i < 4; ++i) bench.kick(bench.add(1, 0, 0), 60);
    const TvlId often = bench.add(weight, 0, 0);
    std::uint32_t starts_of_often = 0, in_a_row = 0;
    for (int i = 0; i < 200; ++i) {
      if (!bench.arbitrator.first(often)) bench.kick(often, 1);
      const bool is_often = bench.run(1) == "E";
      starts_of_often += is_often;
      in_a_row = is_often ? in_a_row + 1 : 0;
      ASSERT_LE(in_a_row, 2 * weight);
    }
    EXPECT_NEAR(starts_of_often, 200 * weight / (4 + weight), weight + 1) << "weight " << weight;
  }
}

TEST(KickArbitrator, WhatIsLeftOfATurnIsTakenUpInFront) {
  Bench bench(4, 4);
  const TvlId a = bench.add(3, 0, 0);
  const TvlId b = bench.add(3, 0, 0);
  bench.kick(a, 1);
  bench.kick(b, 4);
  EXPECT_EQ(bench.run(2), "AB");
  bench.kick(a, 5);
  EXPECT_EQ(bench.run(10), "BBAABAAA") << "B came before it";
}

TEST(KickArbitrator, OwnCreditsAreAGuaranteeUnderAFlood) {
  Bench bench(10, 12);
  const TvlId flood = bench.add(100, 2, 2);
  const TvlId quiet = bench.add(1, 3, 3);
  bench.kick(flood, 100);
  EXPECT_EQ(bench.flood(), (std::map<TvlId, int>{{flood, 7}}));
  bench.kick(quiet, 5);
  EXPECT_EQ(bench.flood(), (std::map<TvlId, int>{{quiet, 3}}));
  EXPECT_EQ(bench.arbitrator.counters(quiet).waiting.value(), 2u);
  EXPECT_GT(bench.arbitrator.counters(quiet).execution_waits.value(), 0u);
}

TEST(KickArbitrator, EitherCreditMissingHoldsALaneBackAndNoOther) {
  Bench bench(10, 10);
  const TvlId no_completion = bench.add(1, 5, 1, false);
  const TvlId no_execution = bench.add(1, 1, 5, false);
  const TvlId both = bench.add(1, 4, 4, false);
  for (const TvlId tvl : {no_completion, no_execution, both}) bench.kick(tvl, 10);
  EXPECT_EQ(bench.flood(),
            (std::map<TvlId, int>{{no_completion, 1}, {no_execution, 1}, {both, 4}}));
  bench.arbitrator.return_execution(no_completion);
  bench.arbitrator.return_completion(no_execution);
  EXPECT_FALSE(bench.arbitrator.next());
  bench.arbitrator.return_completion(no_completion);
  EXPECT_EQ(bench.arbitrator.next()->tvl, no_completion);
  bench.arbitrator.return_execution(no_execution);
  EXPECT_EQ(bench.arbitrator.next()->tvl, no_execution);
  EXPECT_FALSE(bench.arbitrator.next());
}

TEST(KickArbitrator, ASharedCreditGivenBackWakesAnotherLane) {
  Bench bench(1, 1);
  const TvlId a = bench.add(1, 0, 0);
  const TvlId b = bench.add(1, 0, 0);
  bench.kick(a, 1);
  bench.kick(b, 1);
  EXPECT_EQ(bench.arbitrator.next()->tvl, a);
  EXPECT_FALSE(bench.arbitrator.next());
  EXPECT_FALSE(bench.arbitrator.has_work());
  bench.arbitrator.return_execution(a);
  EXPECT_FALSE(bench.arbitrator.next());
  bench.arbitrator.return_completion(a);
  EXPECT_TRUE(bench.arbitrator.has_work());
  EXPECT_EQ(bench.arbitrator.next()->tvl, b);
}

// A lane is woken for a shared execution credit and then has no completion credit: the execution
// credit must reach the next lane that waits for one.
TEST(KickArbitrator, AWakeInVainIsPassedOn) {
  Bench bench(2, 3);
  const TvlId a = bench.add(1, 0, 0);
  const TvlId b = bench.add(1, 0, 2);
  bench.kick(a, 5);
  bench.kick(b, 5);
  EXPECT_EQ(bench.flood(), (std::map<TvlId, int>{{a, 1}, {b, 1}}));
  bench.arbitrator.return_execution(a);
  EXPECT_EQ(bench.arbitrator.next()->tvl, b);
  EXPECT_FALSE(bench.arbitrator.next());
}

TEST(KickArbitrator, AFullListRefusesAndKeepsWhatItHas) {
  Bench bench(1, 1);
  const TvlId a = bench.add(1, 1, 1, true, 2);
  bench.kick(a, 2);
  EXPECT_FALSE(bench.arbitrator.kick(a, PcbId(9)));
  EXPECT_FALSE(bench.arbitrator.queued(PcbId(9)));
  EXPECT_EQ(bench.arbitrator.counters(a).refused.value(), 1u);
  EXPECT_EQ(bench.arbitrator.counters(a).waiting_high_water.value(), 2u);
  bench.run(1);
  EXPECT_TRUE(bench.arbitrator.kick(a, PcbId(9)));
}

TEST(KickArbitrator, RemovesQueuedCommandsAndTakesNoCreditForThem) {
  Bench bench(4, 4);
  const TvlId a = bench.add(1, 4, 4);
  bench.kick(a, 3);
  EXPECT_TRUE(bench.arbitrator.remove(PcbId(1)));
  EXPECT_FALSE(bench.arbitrator.remove(PcbId(1)));
  EXPECT_EQ(bench.arbitrator.next()->pcb, PcbId(0));
  EXPECT_FALSE(bench.arbitrator.remove(PcbId(0)));
  EXPECT_TRUE(bench.arbitrator.remove(PcbId(2)));
  EXPECT_FALSE(bench.arbitrator.next());
  EXPECT_EQ(bench.table[a].execution.in_use.value(), 1u);
}

TEST(KickArbitrator, ALaneEmptiedWhileItWaitsIsForgotten) {
  Bench bench(1, 1);
  const TvlId a = bench.add(1, 0, 0);
  const TvlId b = bench.add(1, 0, 0);
  bench.kick(a, 1);
  bench.kick(b, 1);
  bench.flood();
  EXPECT_TRUE(bench.arbitrator.remove(PcbId(1)));
  bench.finish(a);
  EXPECT_FALSE(bench.arbitrator.next());
  bench.kick(b, 1);
  EXPECT_EQ(bench.arbitrator.next()->pcb, PcbId(2));
}

TvlTerms guarantees(std::uint32_t execution, std::uint32_t completion, bool may_share = true) {
  return {.max_kick_list = kPcbs,
          .execution_guaranteed = execution,
          .completion_guaranteed = completion,
          .may_share = may_share};
}

// A guarantee is given while its credits are in use. The lane gets the next credits that come back,
// before the lanes that share.
TEST(KickArbitrator, ALaneWhoseGuaranteeIsStillFillingStartsAsCreditsComeBack) {
  Bench bench(3, 9);
  const TvlId a = bench.add(1, 0, 0);
  const TvlId b = bench.add(1, 0, 0);
  bench.kick(a, 6);
  EXPECT_EQ(bench.flood(), (std::map<TvlId, int>{{a, 3}}));
  bench.kick(b, 3);
  ASSERT_TRUE(bench.table.change(b, guarantees(2, 2)));
  bench.arbitrator.refresh();
  EXPECT_EQ(bench.table.execution_pool().overdrawn(), 2u);
  EXPECT_FALSE(bench.arbitrator.next());
  EXPECT_FALSE(bench.arbitrator.has_work());
  for (int i = 0; i < 2; ++i) {
    bench.finish(a);
    ASSERT_TRUE(bench.arbitrator.has_work());
    EXPECT_EQ(bench.flood(), (std::map<TvlId, int>{{b, 1}}));
  }
  bench.finish(a);
  EXPECT_EQ(bench.flood().size(), 1u);
}

TEST(KickArbitrator, AWaitingLaneLooksAgainWhenItsGuaranteeOrCapChanges) {
  Bench bench(4, 4);
  const TvlId a = bench.add(1, 1, 1, false);
  bench.kick(a, 4);
  EXPECT_EQ(bench.flood()[a], 1);
  ASSERT_TRUE(bench.table.change(a, guarantees(2, 2, false)));
  bench.arbitrator.refresh();
  EXPECT_EQ(bench.flood()[a], 1);
  ASSERT_TRUE(bench.table.change(a, guarantees(2, 2, true)));
  bench.arbitrator.refresh();
  EXPECT_EQ(bench.flood()[a], 2);
}

}  // namespace
}  // namespace softhca::schedule
