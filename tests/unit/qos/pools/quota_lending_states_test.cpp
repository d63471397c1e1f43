// SPDX-License-Identifier: Apache-2.0

// Searches, breadth first, every state that lending can bring a small pool into. One tenant has two
// levels, another has none. Each state's counts are compared with a recount. Unless guarantees
// change, the pool must always have the units for every guarantee in force.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>

#include "daemon/qos/pools/quota_search_and_lending.hpp"

namespace softhca::lending_states {
namespace {

constexpr std::uint32_t kTotal = 4;
constexpr std::size_t kHolders = 4;  // a tenant, its two levels, another tenant

struct State {
  QuotaPool pool{kTotal};
  std::array<Quota, kHolders> quotas;

  static bool is_level(std::size_t i) { return i == 1 || i == 2; }
  Quota* parent(std::size_t i) { return is_level(i) ? &quotas[0] : nullptr; }
  bool takes(std::size_t i) const { return i != 0; }

  bool take(std::size_t i) {
    return is_level(i) ? pool.take(quotas[i], quotas[0]) : pool.take(quotas[i]);
  }
  void put(std::size_t i) { is_level(i) ? pool.put(quotas[i], quotas[0]) : pool.put(quotas[i]); }
  bool set_guarantee(std::size_t i, std::uint32_t n) {
    return is_level(i) ? pool.set_guarantee(quotas[i], quotas[0], n)
                       : pool.set_guarantee(quotas[i], n);
  }
  void recall(std::size_t i) {
    is_level(i) ? pool.recall(quotas[i], quotas[0]) : pool.recall(quotas[i]);
  }
};

using Key = std::array<std::uint32_t, 4 * kHolders>;

Key key_of(const State& s) {
  Key key{};
  std::size_t i = 0;
  for (const Quota& q : s.quotas)
    for (const std::uint32_t value : {q.guaranteed.value(), q.lent.value(), q.in_use.value(),
                                      static_cast<std::uint32_t>(q.recalling)})
      key[i++] = value;
  return key;
}

void expect_counts(const State& s) {
  std::uint32_t unallocated = kTotal, lent = 0, recalled = 0, shared = 0, free = kTotal;
  for (std::size_t i = 0; i < kHolders; ++i) {
    const Quota& q = s.quotas[i];
    ASSERT_LE(q.lent.value(), q.guaranteed.value());
    ASSERT_TRUE(q.lent.value() != 0 || !q.recalling);
    unallocated -= q.guaranteed.value();
    lent += q.lent.value();
    if (q.recalling) recalled += q.lent.value();
    if (!State::is_level(i)) shared += q.shared_in_use();
    if (s.takes(i)) free -= q.in_use.value();
  }
  ASSERT_EQ(s.quotas[0].in_use.value(), s.quotas[1].shared_in_use() + s.quotas[2].shared_in_use());
  ASSERT_EQ(s.pool.unallocated(), unallocated);
  ASSERT_EQ(s.pool.lent(), lent);
  ASSERT_EQ(s.pool.recalled(), recalled);
  ASSERT_EQ(s.pool.shared_in_use(), shared);
  ASSERT_EQ(s.pool.free(), free);
  if (s.pool.overdrawn() != 0) return;
  for (const Quota& q : s.quotas) ASSERT_TRUE(!q.below_guarantee() || s.pool.free() > 0);
}

/// One that asks is served, or what it wants is in use by others beyond what is theirs.
void expect_served(State s, std::size_t i) {
  Quota& q = s.quotas[i];
  const bool below = q.in_use.value() < q.guaranteed.value();
  const bool in_force = q.below_guarantee();
  const std::uint32_t shared = s.pool.shared_in_use();
  const bool overdrawn = s.pool.overdrawn() != 0;
  if (s.take(i)) {
    ASSERT_FALSE(!overdrawn && s.pool.overdrawn() != 0);
    return;
  }
  if (overdrawn) return;
  ASSERT_FALSE(in_force);
  ASSERT_TRUE(!below || shared != 0);
  ASSERT_TRUE(!below || q.recalling);
}

TEST(LendingStates, AllOfThem) {
  std::set<Key> seen;
  std::deque<State> todo;
  const auto reach = [&](const State& s) {
    if (seen.insert(key_of(s)).second) todo.push_back(s);
  };
  reach(State());
  std::size_t overdrawn = 0;
  for (; !todo.empty() && !HasFatalFailure(); todo.pop_front()) {
    const State& from = todo.front();
    expect_counts(from);
    overdrawn += from.pool.overdrawn() != 0;
    for (std::size_t i = 0; i < kHolders; ++i) {
      const auto step = [&](auto&& change) {
        State to = from;
        change(to);
        ASSERT_TRUE(from.pool.overdrawn() != 0 || to.pool.overdrawn() == 0);
        reach(to);
      };
      const Quota& q = from.quotas[i];
      if (from.takes(i)) {
        expect_served(from, i);
        step([&](State& s) { s.take(i); });
        if (q.in_use.value() != 0) step([&](State& s) { s.put(i); });
      }
      if (!q.recalling && q.in_force() > q.own_in_use())
        step([&](State& s) { s.pool.lend(s.quotas[i], 1); });
      if (q.lent.value() != 0) step([&](State& s) { s.recall(i); });
      for (std::uint32_t n = 0; n <= kTotal; ++n) {
        State to = from;
        if (to.set_guarantee(i, n)) reach(to);
      }
    }
  }
  EXPECT_GT(seen.size(), 10'000u);
  EXPECT_GT(overdrawn, 0u);
}

}  // namespace
}  // namespace softhca::lending_states
