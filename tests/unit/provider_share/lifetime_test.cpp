// How long memory that no region uses stays shared.
#include <gtest/gtest.h>

#include "tests/unit/provider_share/fake_daemon.hpp"

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
  EXPECT_NE(prepare(memory, extents), first);
  EXPECT_TRUE(memory.intact(8));
  EXPECT_TRUE(daemon_.sees_the_same(extents.all(), memory.base(), memory.bytes()));
}

TEST_F(Lifetime, WhatTheApplicationUnmappedIsGivenBackAtTheNextRegistration) {
  Anonymous other(1);
  std::uint32_t handle;
  {
    Anonymous memory(4);
    handle = cycle(memory);
  }
  cycle(other);
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{handle});
  EXPECT_EQ(registry_.idle_bytes(), kPage);
}

TEST_F(Lifetime, UnmappedMemoryInUseIsKept) {
  ExtentList extents;
  Anonymous other(1);
  {
    Anonymous memory(4);
    prepare(memory, extents);
  }
  cycle(other);
  cycle(other);
  EXPECT_TRUE(daemon_.freed.empty());
  registry_.release(extents.all());
  cycle(other);
  EXPECT_EQ(daemon_.freed.size(), 1u);
}

TEST_F(Lifetime, IdleMemoryMakesRoomWhenTheAllowanceIsUsedUp) {
  Anonymous first(4), second(6);
  daemon_.allowance = 8 * kPage;
  const std::uint32_t handle = cycle(first);
  cycle(second);
  EXPECT_EQ(daemon_.freed, std::set<std::uint32_t>{handle});
  EXPECT_TRUE(first.intact());
}

TEST_F(Lifetime, WhatIsBeingReusedDoesNotMakeRoom) {
  Anonymous memory(8);
  ExtentList extents;
  ASSERT_EQ(registry_.prepare(region(memory.base(), 4 * kPage), extents), 0);
  registry_.release(extents.all());
  daemon_.allowance = 4 * kPage;
  ASSERT_EQ(registry_.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "SP");
  EXPECT_TRUE(daemon_.freed.empty());
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
