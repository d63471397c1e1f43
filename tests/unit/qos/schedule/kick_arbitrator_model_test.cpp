// SPDX-License-Identifier: Apache-2.0

// Random kicks, starts, returns and removals against a model that looks at everything each time.
// The model says whether something can start and which commands are the candidates; the ratios of
// the turns are tested elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "daemon/qos/schedule/kick_arbitrator.hpp"

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kModelPcbs = 60;

struct ModelCredits {
  std::uint32_t total = 0;
  std::vector<std::uint32_t> own;
  std::vector<std::uint32_t> used;

  bool can_take(std::size_t lane, bool may_share) const {
    std::uint32_t in_use = 0;
    std::uint32_t spoken_for = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      in_use += used[i];
      spoken_for += std::max(own[i], used[i]);
    }
    if (used[lane] < own[lane]) return in_use < total;
    return may_share && spoken_for < total;
  }
};

struct ModelLane {
  bool may_share;
  std::size_t max_list;
  std::deque<PcbId> list;
};

TEST(KickArbitratorModel, StartsExactlyWhenSomeLaneHasACommandAndBothCredits) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::uint16_t lanes = 1 + random() % 6;
    ModelCredits execution{static_cast<std::uint32_t>(random() % 12), {}, {}};
    ModelCredits completion{static_cast<std::uint32_t>(random() % 16), {}, {}};
    TvlTable table({.max_tvls = lanes,
                    .execution_credits = execution.total,
                    .completion_credits = completion.total});
    KickArbitrator arbitrator(table, kModelPcbs);
    std::vector<ModelLane> model;
    std::uint32_t execution_left = execution.total;
    std::uint32_t completion_left = completion.total;
    for (std::uint16_t i = 0; i < lanes; ++i) {
      const std::uint32_t e = random() % (execution_left + 1) / 2;
      const std::uint32_t c = random() % (completion_left + 1) / 2;
      const bool may_share = e == 0 || c == 0 || random() % 3 != 0;
      const std::uint32_t list = 1 + random() % 20;
      ASSERT_TRUE(table.add({.weight = static_cast<std::uint32_t>(1 + random() % 4),
                             .max_kick_list = list,
                             .execution_guaranteed = e,
                             .completion_guaranteed = c,
                             .may_share = may_share}));
      model.push_back({may_share, list, {}});
      execution_left -= e;
      completion_left -= c;
      for (auto [credits, own] : {std::pair(&execution, e), std::pair(&completion, c)}) {
        credits->own.push_back(own);
        credits->used.push_back(0);
      }
    }

    std::vector<PcbId> free;
    for (std::uint32_t i = 0; i < kModelPcbs; ++i) free.emplace_back(i);
    for (int step = 0; step < 1000; ++step) {
      const std::size_t i = random() % lanes;
      const TvlId tvl(static_cast<std::uint16_t>(i));
      ModelLane& lane = model[i];
      switch (random() % 7) {
        case 0:
        case 1: {
          if (free.empty()) break;
          const bool fits = lane.list.size() < lane.max_list;
          ASSERT_EQ(arbitrator.kick(tvl, free.back()), fits);
          if (!fits) break;
          lane.list.push_back(free.back());
          free.pop_back();
          break;
        }
        case 2:
        case 3: {
          bool possible = false;
          for (std::size_t l = 0; l < lanes; ++l)
            possible |= !model[l].list.empty() && execution.can_take(l, model[l].may_share) &&
                        completion.can_take(l, model[l].may_share);
          ASSERT_TRUE(!possible || arbitrator.has_work());
          const auto start = arbitrator.next();
          ASSERT_EQ(start.has_value(), possible) << "round " << round << " step " << step;
          if (!start) break;
          const std::size_t s = start->tvl.value;
          ASSERT_TRUE(execution.can_take(s, model[s].may_share));
          ASSERT_TRUE(completion.can_take(s, model[s].may_share));
          ASSERT_FALSE(model[s].list.empty());
          ASSERT_EQ(start->pcb, model[s].list.front());
          model[s].list.pop_front();
          free.insert(free.begin(), start->pcb);
          ++execution.used[s];
          ++completion.used[s];
          break;
        }
        case 4:
          if (random() % 2 != 0 && execution.used[i] > 0) {
            --execution.used[i];
            arbitrator.return_execution(tvl);
          } else if (completion.used[i] > 0) {
            --completion.used[i];
            arbitrator.return_completion(tvl);
          }
          break;
        case 5: {
          if (random() % 8 != 0) break;
          const TvlTerms wanted{.weight = static_cast<std::uint32_t>(1 + random() % 4),
                                .max_kick_list = static_cast<std::uint32_t>(lane.max_list),
                                .execution_guaranteed = static_cast<std::uint32_t>(random() % 6),
                                .completion_guaranteed = static_cast<std::uint32_t>(random() % 6),
                                .may_share = random() % 3 != 0};
          if (!table.change(tvl, wanted)) break;
          arbitrator.refresh();
          execution.own[i] = wanted.execution_guaranteed;
          completion.own[i] = wanted.completion_guaranteed;
          lane.may_share = wanted.may_share;
          break;
        }
        default: {
          if (lane.list.empty() || random() % 4 != 0) break;
          const auto victim = lane.list.begin() + static_cast<long>(random() % lane.list.size());
          ASSERT_TRUE(arbitrator.remove(*victim));
          free.push_back(*victim);
          lane.list.erase(victim);
        }
      }
      ASSERT_EQ(arbitrator.counters(tvl).waiting.value(), lane.list.size());
      ASSERT_EQ(table[tvl].execution.in_use.value(), execution.used[i]);
      ASSERT_EQ(table[tvl].completion.in_use.value(), completion.used[i]);
    }
  }
}

}  // namespace
}  // namespace softhca::schedule
