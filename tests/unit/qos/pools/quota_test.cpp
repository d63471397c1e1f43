// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/pools/quota_search_and_lending.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace softhca {
namespace {

TEST(Quota, DrawsItsOwnFirstThenShared) {
  QuotaPool pool(5);
  Quota a;
  Quota b;
  ASSERT_TRUE(pool.set_guarantee(a, 2));
  ASSERT_TRUE(pool.set_guarantee(b, 2));
  EXPECT_EQ(pool.unallocated(), 1u);
  EXPECT_TRUE(pool.take(a));
  EXPECT_TRUE(pool.take(a));
  EXPECT_EQ(pool.shared_in_use(), 0u);
  EXPECT_TRUE(pool.take(a));
  EXPECT_EQ(pool.shared_in_use(), 1u);
  EXPECT_FALSE(pool.take(a));
  EXPECT_EQ(a.in_use.value(), 3u);
  EXPECT_EQ(a.high_water.value(), 3u);
  EXPECT_TRUE(pool.take(b));
  EXPECT_TRUE(pool.take(b));
  EXPECT_FALSE(pool.take(b));
  pool.put(a);
  EXPECT_EQ(pool.shared_free(), 1u);
  EXPECT_TRUE(pool.take(b));
}

TEST(Quota, ACappedHolderStaysOutOfTheSharedRest) {
  QuotaPool pool(10);
  Quota capped;
  capped.may_share = false;
  ASSERT_TRUE(pool.set_guarantee(capped, 1));
  EXPECT_TRUE(pool.take(capped));
  EXPECT_FALSE(pool.available(capped));
  EXPECT_FALSE(pool.take(capped));
  EXPECT_EQ(pool.shared_free(), 9u);
}

TEST(Quota, RefusesAGuaranteeBeyondWhatIsUnallocated) {
  QuotaPool pool(4);
  Quota a;
  Quota b;
  EXPECT_FALSE(pool.set_guarantee(a, 5));
  EXPECT_EQ(a.guaranteed.value(), 0u);
  ASSERT_TRUE(pool.set_guarantee(a, 1));
  EXPECT_FALSE(pool.set_guarantee(b, 4));
  EXPECT_TRUE(pool.set_guarantee(b, 3));
  EXPECT_EQ(pool.unallocated(), 0u);
}

// The pool does not take units in use away. The holder of the guarantee gets the units that others
// return, before the others can take them again.
TEST(Quota, AGuaranteeOfWhatIsInUseFillsAsThatIsGivenBack) {
  QuotaPool pool(4);
  Quota a;
  Quota b;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.take(a));
  ASSERT_TRUE(pool.set_guarantee(b, 3));
  EXPECT_EQ(pool.overdrawn(), 2u);
  EXPECT_EQ(pool.shared_free(), 0u);
  EXPECT_TRUE(pool.take(b));
  EXPECT_FALSE(pool.available(b));
  EXPECT_FALSE(pool.take(b));
  pool.put(a);
  EXPECT_FALSE(pool.take(a));
  EXPECT_TRUE(pool.take(b));
  pool.put(a);
  EXPECT_EQ(pool.overdrawn(), 0u);
  EXPECT_FALSE(pool.take(a));
  EXPECT_TRUE(pool.take(b));
  EXPECT_EQ(a.in_use.value(), 1u);
  EXPECT_EQ(pool.free(), 0u);
}

TEST(Quota, WhatWasItsOwnDrains) {
  QuotaPool pool(8);
  Quota a;
  ASSERT_TRUE(pool.set_guarantee(a, 4));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.take(a));
  EXPECT_EQ(a.draining.value(), 0u);
  ASSERT_TRUE(pool.set_guarantee(a, 1));
  EXPECT_EQ(a.draining.value(), 3u);
  ASSERT_TRUE(pool.set_guarantee(a, 3));
  EXPECT_EQ(a.draining.value(), 2u);
  pool.put(a);
  EXPECT_EQ(a.draining.value(), 1u);
  ASSERT_TRUE(pool.take(a));
  pool.put(a);
  pool.put(a);
  EXPECT_EQ(a.draining.value(), 0u);
  EXPECT_EQ(a.in_use.value(), 3u);
}

TEST(Quota, OfTwoLevelsFirstTheOwnThenTheParentsThenTheShared) {
  QuotaPool pool(6);
  Quota parent;
  Quota level;
  Quota other;
  ASSERT_TRUE(pool.set_guarantee(parent, 4));
  ASSERT_TRUE(pool.set_guarantee(level, parent, 1));
  ASSERT_TRUE(pool.set_guarantee(other, parent, 1));
  EXPECT_FALSE(pool.set_guarantee(other, parent, 4));
  EXPECT_EQ(parent.guaranteed.value(), 2u);
  EXPECT_TRUE(pool.take(level, parent));
  EXPECT_EQ(parent.in_use.value(), 0u);
  EXPECT_TRUE(pool.take(level, parent));
  EXPECT_TRUE(pool.take(level, parent));
  EXPECT_EQ(parent.in_use.value(), 2u);
  EXPECT_EQ(pool.shared_in_use(), 0u);
  EXPECT_TRUE(pool.take(level, parent));
  EXPECT_TRUE(pool.take(level, parent));
  EXPECT_EQ(pool.shared_in_use(), 2u);
  EXPECT_FALSE(pool.take(level, parent));
  EXPECT_TRUE(pool.take(other, parent));
  EXPECT_FALSE(pool.take(other, parent));
  pool.put(level, parent);
  EXPECT_EQ(pool.shared_free(), 1u);
  EXPECT_TRUE(pool.take(other, parent));
}

TEST(Quota, ACapHoldsAtEitherLevel) {
  QuotaPool pool(10);
  Quota parent;
  Quota capped;
  Quota level;
  ASSERT_TRUE(pool.set_guarantee(parent, 4));
  parent.may_share = false;
  capped.may_share = false;
  ASSERT_TRUE(pool.set_guarantee(capped, parent, 1));
  EXPECT_TRUE(pool.take(capped, parent));
  EXPECT_FALSE(pool.take(capped, parent));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.take(level, parent));
  EXPECT_FALSE(pool.take(level, parent));
  EXPECT_EQ(pool.shared_free(), 6u);
}

TEST(Quota, TheTotalGrowsAndShrinks) {
  QuotaPool pool(1);
  Quota a;
  pool.grow(2);
  ASSERT_TRUE(pool.set_guarantee(a, 2));
  EXPECT_TRUE(pool.take(a) && pool.take(a) && pool.take(a));
  EXPECT_FALSE(pool.take(a));
  for (int i = 0; i < 3; ++i) pool.put(a);
  ASSERT_TRUE(pool.set_guarantee(a, 0));
  pool.shrink(2);
  EXPECT_TRUE(pool.take(a));
  EXPECT_FALSE(pool.take(a));
}

TEST(Quota, ASmallerGuaranteeTurnsWhatIsInUseIntoShared) {
  QuotaPool pool(4);
  Quota a;
  Quota b;
  ASSERT_TRUE(pool.set_guarantee(a, 4));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.take(a));
  ASSERT_TRUE(pool.set_guarantee(a, 1));
  EXPECT_EQ(pool.unallocated(), 3u);
  EXPECT_EQ(pool.shared_in_use(), 2u);
  EXPECT_EQ(pool.shared_free(), 1u);
  EXPECT_TRUE(pool.take(b));
  EXPECT_FALSE(pool.take(b));
  pool.put(a);
  EXPECT_TRUE(pool.take(b));
}

// Invariants after every step: what is drawn never exceeds the total; a holder below its guarantee
// gets one unless a guarantee is still filling; the shared rest is what is drawn beyond guarantees.
TEST(Quota, AnySequenceKeepsGuaranteesAndTotals) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t total = random() % 40;
    QuotaPool pool(total);
    std::vector<Quota> holders(1 + random() % 6);
    for (Quota& q : holders) q.may_share = random() % 3 != 0;
    for (int step = 0; step < 2000; ++step) {
      Quota& q = holders[random() % holders.size()];
      if (random() % 10 == 0) {
        const std::uint32_t asked = random() % 12;
        const bool fits =
            asked <= q.guaranteed.value() || asked - q.guaranteed.value() <= pool.unallocated();
        ASSERT_EQ(pool.set_guarantee(q, asked), fits);
      } else if (random() % 2 != 0) {
        const bool expected = q.in_use.value() < q.guaranteed.value()
                                  ? pool.free() > 0
                                  : q.may_share && pool.shared_free() > 0;
        ASSERT_EQ(pool.available(q), expected);
        ASSERT_EQ(pool.take(q), expected);
      } else if (q.in_use.value() > 0) {
        pool.put(q);
      }
      std::uint32_t guaranteed = 0;
      std::uint32_t in_use = 0;
      std::uint32_t beyond = 0;
      for (const Quota& h : holders) {
        guaranteed += h.guaranteed.value();
        in_use += h.in_use.value();
        if (h.in_use.value() > h.guaranteed.value())
          beyond += h.in_use.value() - h.guaranteed.value();
      }
      ASSERT_EQ(pool.unallocated(), total - guaranteed);
      ASSERT_EQ(pool.shared_in_use(), beyond);
      ASSERT_EQ(pool.overdrawn(), beyond - std::min(beyond, pool.unallocated()));
      ASSERT_EQ(pool.free(), total - in_use);
      ASSERT_LE(in_use, total);
      if (pool.overdrawn() != 0) continue;
      for (const Quota& h : holders)
        ASSERT_TRUE(h.in_use.value() >= h.guaranteed.value() || pool.available(h));
    }
  }
}

/// A reader of a pool of 8 sees at most 8, whatever the owner thread does meanwhile.
TEST(Quota, FiguresDoNotWrapForAReaderOnAnotherThread) {
  constexpr std::uint32_t kTotal = 8;
  constexpr int kLooks = 500'000;
  QuotaPool pool(kTotal);
  Quota a, b;
  ASSERT_TRUE(pool.set_guarantee(a, 2));
  ASSERT_TRUE(pool.set_guarantee(b, 2));
  std::atomic<bool> seen_enough{false};
  std::thread owner([&] {
    while (!seen_enough.load(std::memory_order_relaxed)) {
      for (std::uint32_t i = 0; i < 6; ++i) pool.take(a);
      ASSERT_TRUE(pool.set_guarantee(b, 6));  // overdrawn
      ASSERT_TRUE(pool.set_guarantee(b, 2));
      while (a.in_use.value() != 0) pool.put(a);
    }
  });
  std::uint32_t most = 0;
  for (int i = 0; i < kLooks; ++i)
    for (const std::uint32_t figure :
         {a.own_in_use(), a.shared_in_use(), pool.in_use(), pool.high_water(), pool.shared(),
          pool.shared_free(), pool.borrowable(), pool.overdrawn()})
      most = std::max(most, figure);
  seen_enough = true;
  owner.join();
  EXPECT_LE(most, kTotal);
}

}  // namespace
}  // namespace softhca
