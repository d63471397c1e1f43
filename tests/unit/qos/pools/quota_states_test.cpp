// SPDX-License-Identifier: Apache-2.0

// Every state that two tenants with two levels each can bring a pool of four things into, by
// breadth-first search, against a model that counts from the beginning each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "daemon/qos/pools/quota_search_and_lending.hpp"

namespace softhca::quota_states {
namespace {

constexpr std::uint32_t kTotal = 4;
constexpr std::size_t kTenants = 2;
constexpr std::size_t kLevels = 4;  // 0 and 1 of the first tenant, 2 and 3 of the second

struct State {
  QuotaPool pool{kTotal};
  std::array<Quota, kTenants> tenants;
  std::array<Quota, kLevels> levels;

  Quota& parent(std::size_t level) { return tenants[level / 2]; }
};

using Key = std::array<std::uint32_t, kTenants + 2 * kLevels>;

Key key_of(const State& s) {
  Key key{};
  std::size_t i = 0;
  for (const Quota& q : s.tenants) key[i++] = q.guaranteed.value();
  for (const Quota& q : s.levels) {
    key[i++] = q.guaranteed.value();
    key[i++] = q.in_use.value();
  }
  return key;
}

struct Model {
  explicit Model(const State& s) {
    for (std::size_t t = 0; t < kTenants; ++t) {
      shared_part[t] = s.tenants[t].guaranteed.value();
      unallocated -= shared_part[t];
      for (std::size_t l = 2 * t; l < 2 * t + 2; ++l) {
        const std::uint32_t own = s.levels[l].guaranteed.value();
        const std::uint32_t used = s.levels[l].in_use.value();
        unallocated -= own;
        free -= used;
        drawn[t] += std::max(own, used) - own;
      }
      shared_used += std::max(drawn[t], shared_part[t]) - shared_part[t];
    }
  }

  bool can_take(const State& s, std::size_t level) const {
    const Quota& q = s.levels[level];
    const std::size_t t = level / 2;
    if (free == 0) return false;
    if (q.in_use.value() < q.guaranteed.value()) return true;
    if (!q.may_share) return false;
    if (drawn[t] < shared_part[t]) return true;
    return s.tenants[t].may_share && shared_used < unallocated;
  }

  std::uint32_t free = kTotal;
  std::uint32_t unallocated = kTotal;
  std::uint32_t shared_used = 0;
  std::array<std::uint32_t, kTenants> shared_part{};
  std::array<std::uint32_t, kTenants> drawn{};
};

void expect_consistent(const State& s) {
  const Model model(s);
  ASSERT_EQ(s.pool.free(), model.free);
  ASSERT_EQ(s.pool.unallocated(), model.unallocated);
  ASSERT_EQ(s.pool.shared_in_use(), model.shared_used);
  for (std::size_t l = 0; l < kLevels; ++l)
    ASSERT_EQ(s.pool.available(s.levels[l], s.tenants[l / 2]), model.can_take(s, l));
  for (std::size_t t = 0; t < kTenants; ++t) {
    ASSERT_EQ(s.tenants[t].in_use.value(), model.drawn[t]);
    ASSERT_LE(s.tenants[t].draining.value(), s.tenants[t].shared_in_use());
  }
  for (const Quota& level : s.levels) {
    ASSERT_LE(level.draining.value(), level.shared_in_use());
    // Unless a guarantee is still filling, a level below its guarantee gets a unit.
    if (s.pool.overdrawn() == 0 && level.below_guarantee()) {
      ASSERT_GT(s.pool.free(), 0u);
    }
  }
}

class Search {
 public:
  explicit Search(unsigned flags) {
    State start;
    for (std::size_t i = 0; i < kLevels; ++i) start.levels[i].may_share = (flags >> i & 1) != 0;
    for (std::size_t i = 0; i < kTenants; ++i)
      start.tenants[i].may_share = (flags >> (kLevels + i) & 1) != 0;
    reach(start);
  }

  void run() {
    while (!todo_.empty() && !testing::Test::HasFatalFailure()) {
      const State state = todo_.front();
      todo_.pop_front();
      for (std::size_t l = 0; l < kLevels; ++l) use(state, l);
      for (std::size_t l = 0; l < kLevels; ++l) divide(state, l);
      for (std::size_t t = 0; t < kTenants; ++t) allocate(state, t);
    }
  }
  std::size_t states() const { return seen_.size(); }

 private:
  void reach(const State& state) {
    if (!seen_.insert(key_of(state)).second) return;
    expect_consistent(state);
    todo_.push_back(state);
  }

  void use(const State& from, std::size_t l) {
    State s = from;
    const bool expected = Model(from).can_take(from, l);
    ASSERT_EQ(s.pool.take(s.levels[l], s.parent(l)), expected);
    if (!expected) {
      ASSERT_EQ(key_of(s), key_of(from));
    }
    reach(s);
    if (from.levels[l].in_use.value() == 0) return;
    s = from;
    s.pool.put(s.levels[l], s.parent(l));
    reach(s);
  }

  void divide(const State& from, std::size_t l) {
    const std::uint32_t before = from.levels[l].guaranteed.value();
    for (std::uint32_t asked = 0; asked <= kTotal; ++asked) {
      State s = from;
      const bool fits = asked <= before + s.parent(l).guaranteed.value();
      ASSERT_EQ(s.pool.set_guarantee(s.levels[l], s.parent(l), asked), fits);
      reach(s);
    }
  }

  void allocate(const State& from, std::size_t t) {
    const std::uint32_t before = from.tenants[t].guaranteed.value();
    for (std::uint32_t asked = 0; asked <= kTotal; ++asked) {
      State s = from;
      const bool fits = asked <= before + Model(from).unallocated;
      ASSERT_EQ(s.pool.set_guarantee(s.tenants[t], asked), fits);
      reach(s);
    }
  }

  std::set<Key> seen_;
  std::deque<State> todo_;
};

TEST(QuotaStates, EveryReachableStateKeepsGuaranteesAndSums) {
  // Which of two tenants and four levels may share: combinations of like tenants and levels are
  // left out.
  for (const unsigned flags : {0b11'1111u, 0b11'1110u, 0b10'1111u, 0b10'1010u, 0b01'1001u, 0u}) {
    Search search(flags);
    search.run();
    ASSERT_FALSE(HasFatalFailure()) << "flags " << flags;
    EXPECT_GT(search.states(), 1000u);
  }
}

}  // namespace
}  // namespace softhca::quota_states
