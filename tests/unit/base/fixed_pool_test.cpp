// SPDX-License-Identifier: Apache-2.0

#include "daemon/base/fixed_pool.hpp"

#include <gtest/gtest.h>

namespace softhca {
namespace {

TEST(FixedPool, GivesEachSlotOnceThenNothing) {
  FixedPool<int> pool(3);
  EXPECT_EQ(pool.allocate()->index, 0u);
  EXPECT_EQ(pool.allocate()->index, 1u);
  EXPECT_EQ(pool.allocate()->index, 2u);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(pool.in_use(), 3u);
  pool.free(1);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(pool.allocate()->index, 1u);
}

TEST(FixedPool, AHandleIsStaleOnceItsSlotWasFreed) {
  FixedPool<int> pool(2);
  const PoolHandle first = *pool.allocate();
  pool[first.index] = 17;
  ASSERT_NE(pool.find(first), nullptr);
  EXPECT_EQ(*pool.find(first), 17);
  EXPECT_EQ(pool.handle(first.index), first);

  pool.free(first.index);
  EXPECT_EQ(pool.find(first), nullptr);
  const PoolHandle second = *pool.allocate();
  EXPECT_EQ(second.index, first.index);
  EXPECT_EQ(pool.find(first), nullptr);
  EXPECT_NE(pool.find(second), nullptr);
}

TEST(FixedPool, RefusesHandlesThatWereNeverGivenOut) {
  FixedPool<int> pool(2);
  EXPECT_EQ(pool.find(PoolHandle{}), nullptr);
  EXPECT_EQ(pool.find({0, 0}), nullptr);
  EXPECT_EQ(pool.find({2, 1}), nullptr);
}

TEST(FixedPool, OfNothing) {
  FixedPool<int> pool(0);
  EXPECT_EQ(pool.allocate(), std::nullopt);
}

}  // namespace
}  // namespace softhca
