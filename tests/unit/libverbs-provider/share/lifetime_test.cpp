// SPDX-License-Identifier: Apache-2.0

// How long memory that no region uses stays shared.
#include <gtest/gtest.h>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

class Lifetime : public testing::Test {
 protected:
  std::uint32_t prepare(const Anonymous& memory, ExtentList& extents) {
    EXPECT_EQ(registry_.prepare(region(memory.base(), memory.bytes()), extents), 0);
    EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
    return extents.all()[0].handle;
  }
  std::uint32_t cycle(const Anonymous& memory) {
    ExtentList extents;
    const std::uint32_t handle = prepare(memory, extents);
    registry_.release(extents.all());
    return handle;
  }

  /// As often as it takes for all the mappings a process may have to be looked at.
  bool cycle_until_freed() {
    const std::size_t before = daemon_.freed.size();
    for (int i = 0; i < 300 && daemon_.freed.size() == before; ++i) cycle(other_);
    return daemon_.freed.size() != before;
  }

  Anonymous other_{1};
  FakeDaemon daemon_;
  MemoryRegistry registry_{daemon_.source(), {.idle_bytes = 8 * kPage}, KernelCalls::real()};
};

TEST_F(Lifetime, RegisteringAgainCostsNothing) {
  Anonymous memory(8);
  const std::uint32_t handle = cycle(memory);
  EXPECT_EQ(registry_.idle_bytes(), 8 * kPage);
  EXPECT_EQ(cycle(memory), handle);
  EXPECT_EQ(daemon_.allocs, 1u);
  EXPECT_TRUE(daemon_.freed.empty());
}

TEST_F(Lifetime, TheLongestUnusedGoesFirst) {
  Anonymous first(4), second(4), third(4);
  const std::uint32_t a = cycle(first);
  const std::uint32_t b = cycle(second);
  EXPECT_EQ(cycle(first), a);
  cycle(third);
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{b});
  EXPECT_EQ(registry_.idle_bytes(), 8 * kPage);
}

TEST_F(Lifetime, MemoryInUseIsNotIdle) {
  Anonymous memory(64);
  ExtentList first, second;
  const std::uint32_t handle = prepare(memory, first);
  prepare(memory, second);
  registry_.release(first.all());
  EXPECT_EQ(registry_.idle_bytes(), 0u);
  EXPECT_TRUE(daemon_.freed.empty());
  registry_.release(second.all());
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{handle});
}

TEST_F(Lifetime, MemoryGivenBackKeepsItsContentAndCanBeSharedAnew) {
  Anonymous memory(64);
  const std::uint32_t first = cycle(memory);
  ASSERT_TRUE(daemon_.freed.contains(first));
  EXPECT_TRUE(memory.intact());
  Anonymous::fill(memory.base(), memory.bytes(), 8);
  ExtentList extents;
  EXPECT_EQ(prepare(memory, extents) == first, in_machine());
  EXPECT_TRUE(memory.intact(8));
  EXPECT_TRUE(daemon_.sees_the_same(extents.all(), memory.base(), memory.bytes()));
}

TEST_F(Lifetime, WhatTheApplicationUnmappedIsGivenBackAtOneOfTheNextRegistrations) {
  std::uint32_t handle;
  {
    Anonymous memory(4);
    handle = cycle(memory);
  }
  EXPECT_TRUE(cycle_until_freed());
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{handle});
  EXPECT_EQ(registry_.idle_bytes(), kPage);
}

TEST_F(Lifetime, UnmappedMemoryInUseIsKept) {
  ExtentList extents;
  {
    Anonymous memory(4);
    prepare(memory, extents);
  }
  EXPECT_FALSE(cycle_until_freed());
  registry_.release(extents.all());
  EXPECT_TRUE(cycle_until_freed());
  EXPECT_EQ(daemon_.freed.size(), 1u);
}

TEST_F(Lifetime, WhatTheDaemonHasForgottenIsSharedAnew) {
  if (in_machine()) GTEST_SKIP() << "in a machine it forgets nothing";
  Anonymous memory(8);
  ExtentList used, extents;
  ASSERT_EQ(registry_.prepare(region(memory.base(), 2 * kPage), used), 0);
  const std::uint32_t in_use = used.all()[0].handle;
  ASSERT_EQ(registry_.prepare(region(memory.base(), memory.bytes()), extents), 0);
  ASSERT_EQ(shape(memory.base(), memory.bytes(), extents), "SS");
  const std::uint32_t forgotten = extents.all()[1].handle;
  registry_.forget(extents.all());
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{forgotten});
  EXPECT_EQ(registry_.idle_bytes(), 0u);
  ASSERT_EQ(registry_.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "SS");
  EXPECT_EQ(extents.all()[0].handle, in_use);
  EXPECT_NE(extents.all()[1].handle, forgotten);
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(daemon_.sees_the_same(extents.all(), memory.base(), memory.bytes()));
}

TEST_F(Lifetime, WhatTheDaemonRefusesIsLeft) {
  Anonymous memory(8);
  cycle(memory);
  Anonymous other(8);
  daemon_.allowance = 8 * kPage;
  ExtentList extents;
  ASSERT_EQ(registry_.prepare(region(other.base(), other.bytes()), extents), 0);
  EXPECT_EQ(shape(other.base(), other.bytes(), extents), "P");
  EXPECT_TRUE(daemon_.freed.empty()) << "the daemon would have taken it if that were enough";
}

TEST_F(Lifetime, ManyCyclesOverManyRegions) {
  for (int round = 0; round < 2000; ++round) {
    Anonymous memory(1 + static_cast<std::size_t>(round % 5), static_cast<char>(round));
    cycle(memory);
    ASSERT_TRUE(memory.intact(static_cast<char>(round)));
  }
  EXPECT_LE(registry_.idle_bytes(), 8 * kPage);
  EXPECT_GE(daemon_.freed.size() + 8, daemon_.allocs);
}

}  // namespace
}  // namespace softhca::provider
