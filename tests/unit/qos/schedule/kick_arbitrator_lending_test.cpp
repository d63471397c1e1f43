// SPDX-License-Identifier: Apache-2.0

// TVLs lend their credits while they are idle (mechanism A10).
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "daemon/qos/schedule/kick_arbitrator.hpp"

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kLentPcbs = 60;
constexpr AdjustmentPolicy kPolicy{.idle = std::chrono::seconds(4), .keep = 0};

TEST(KickArbitratorLending, ALenderIsServedBeforeBorrowers) {
  TvlTable table({.max_tvls = 2, .execution_credits = 4, .completion_credits = 8});
  KickArbitrator arbitrator(table, kLentPcbs);
  const TvlId lender = *table.add({.max_kick_list = 20,
                                   .execution_guaranteed = 4,
                                   .completion_guaranteed = 8,
                                   .may_share = false});
  const TvlId borrower = *table.add({.max_kick_list = 20});
  ASSERT_TRUE(table.adjust(lender, true, kPolicy, Time{}));  // no queue pair is on it
  EXPECT_EQ(table[lender].execution.lent.value(), 4u);

  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(arbitrator.kick(borrower, PcbId(i)));
  for (int i = 0; i < 4; ++i) ASSERT_EQ(arbitrator.next()->tvl, borrower);
  ASSERT_FALSE(arbitrator.next());
  for (std::uint32_t i = 20; i < 40; ++i) ASSERT_TRUE(arbitrator.kick(lender, PcbId(i)));
  ASSERT_FALSE(arbitrator.next());
  for (int i = 0; i < 4; ++i) {
    arbitrator.return_execution(borrower);
    arbitrator.return_completion(borrower);
    const auto start = arbitrator.next();
    ASSERT_TRUE(start);
    EXPECT_EQ(start->tvl, lender);
  }
  EXPECT_FALSE(arbitrator.next());
  EXPECT_EQ(table[lender].execution.lent.value(), 0u);
}

TEST(KickArbitratorLending, AQueuePairThatComesHasTheCreditsBack) {
  TvlTable table({.max_tvls = 1, .execution_credits = 4, .completion_credits = 8});
  const TvlId lender =
      *table.add({.max_kick_list = 20, .execution_guaranteed = 4, .completion_guaranteed = 8});
  ASSERT_TRUE(table.adjust(lender, true, kPolicy, Time{}));
  table.attach(lender);
  EXPECT_EQ(table.execution_pool().lent() + table.completion_pool().lent(), 0u);
}

TEST(KickArbitratorLending, DedicatedCreditsAreNeverLent) {
  TvlTable table({.max_tvls = 1, .execution_credits = 4, .completion_credits = 8});
  const TvlId dedicated = *table.add({.purpose = TvlPurpose::kDedicated,
                                      .max_kick_list = 20,
                                      .execution_guaranteed = 4,
                                      .completion_guaranteed = 8});
  EXPECT_FALSE(table.adjust(dedicated, true, kPolicy, Time{}));
  EXPECT_EQ(table.execution_pool().lent(), 0u);
}

/// Lanes at random, which lend at random.
class Lanes {
 public:
  explicit Lanes(unsigned seed) : random_(seed), arbitrator_(table_, kLentPcbs) {
    for (std::uint32_t i = 0; i < kLentPcbs; ++i) free_.emplace_back(i);
    for (std::uint16_t i = 0; i < 5; ++i) {
      const std::uint32_t execution = random_() % table_.execution_pool().unallocated();
      const std::uint32_t completion = random_() % table_.completion_pool().unallocated();
      const bool share = execution == 0 || completion == 0 || random_() % 3 != 0;
      const auto added = table_.add({.weight = static_cast<std::uint32_t>(1 + random_() % 3),
                                     .max_kick_list = 20,
                                     .execution_guaranteed = execution,
                                     .completion_guaranteed = completion,
                                     .may_share = share});
      EXPECT_TRUE(added);
      if (random_() % 2 == 0) table_.attach(*added);
    }
  }

  void step() {
    const TvlId tvl(static_cast<std::uint16_t>(random_() % table_.size()));
    switch (random_() % 6) {
      case 0:
      case 1:
        if (!free_.empty() && arbitrator_.kick(tvl, free_.back())) free_.pop_back();
        break;
      case 2:
        if (!running_.empty()) end(random_() % running_.size());
        break;
      case 3:
        now_ += std::chrono::seconds(1);
        if (table_.adjust(tvl, random_() % 4 != 0, kPolicy, now_)) arbitrator_.refresh();
        break;
      default:
        start_all();
    }
  }

  void start_all() {
    while (const auto start = arbitrator_.next()) running_.push_back(*start);
    for (std::uint16_t i = 0; i < table_.size(); ++i) {
      if (arbitrator_.counters(TvlId(i)).waiting.value() == 0) continue;
      const Tvl& tvl = table_[TvlId(i)];
      ASSERT_FALSE(table_.execution_pool().available(tvl.execution) &&
                   table_.completion_pool().available(tvl.completion))
          << "a command of TVL " << i << " waits for nothing";
    }
    ASSERT_FALSE(arbitrator_.has_work());
    ASSERT_EQ(table_.execution_pool().overdrawn() + table_.completion_pool().overdrawn(), 0u);
  }

  /// All that runs ends, and all that waits starts and ends.
  void drain() {
    for (;;) {
      start_all();
      if (running_.empty()) break;
      end(running_.size() - 1);
    }
    ASSERT_EQ(free_.size(), kLentPcbs);
  }

 private:
  void end(std::size_t i) {
    arbitrator_.return_execution(running_[i].tvl);
    arbitrator_.return_completion(running_[i].tvl);
    free_.push_back(running_[i].pcb);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::mt19937 random_;
  TvlTable table_{{.max_tvls = 5, .execution_credits = 9, .completion_credits = 14}};
  KickArbitrator arbitrator_;
  std::vector<PcbId> free_;
  std::vector<Start> running_;
  Time now_{};
};

TEST(KickArbitratorLending, NoCommandWaitsForNothing) {
  for (unsigned seed = 0; seed < 300 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Lanes lanes(seed);
    for (int i = 0; i < 2000 && !HasFatalFailure(); ++i) lanes.step();
    if (!HasFatalFailure()) lanes.drain();
  }
}

}  // namespace
}  // namespace softhca::schedule
