// SPDX-License-Identifier: Apache-2.0

// The same memory, registered in several sessions of the process.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"
#include "tests/unit/libverbs-provider/share/writers.hpp"

namespace softhca::provider {
namespace {

/// A session of the daemon.
struct Opened {
  FakeDaemon daemon;
  std::unique_ptr<MemoryRegistry> registry = std::make_unique<MemoryRegistry>(
      daemon.source(), MemoryRegistry::Limits{.idle_bytes = 8 * kPage}, KernelCalls::real());

  std::string prepare(const char* addr, std::size_t length, ExtentList& extents) {
    if (registry->prepare(region(addr, length), extents) != 0) return "error";
    return shape(addr, length, extents);
  }
  bool sees(const ExtentList& extents, const Anonymous& memory) {
    return daemon.sees_the_same(extents.all(), memory.base(), memory.bytes());
  }
};

/// Requests to join memory, of which there are none in a machine.
unsigned joins(unsigned requests) { return in_machine() ? 0 : requests; }

class Sessions : public testing::Test {
 protected:
  std::string prepare(Opened& session, ExtentList& extents) {
    return session.prepare(memory_.base(), memory_.bytes(), extents);
  }

  Anonymous memory_{8};
  Opened first_, second_, third_;
  ExtentList ours_, theirs_, others_;
};

TEST_F(Sessions, HaveOneMemoryInCommon) {
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  EXPECT_EQ(second_.daemon.allocs, 0u);
  EXPECT_TRUE(memory_.intact());
  second_.daemon.write(theirs_.all(), memory_.base() + 3, 77);
  EXPECT_EQ(memory_.base()[3], 77);
  EXPECT_TRUE(first_.sees(ours_, memory_));
  EXPECT_TRUE(second_.sees(theirs_, memory_));
  // Registered again it costs nothing.
  second_.registry->release(theirs_.all());
  ASSERT_EQ(prepare(second_, others_), "S");
  EXPECT_EQ(others_.all()[0].handle, theirs_.all()[0].handle);
  EXPECT_EQ(second_.daemon.joins, joins(1));
  EXPECT_EQ(second_.registry->idle_bytes(), 0u);
}

TEST_F(Sessions, TakePartsOfItAndAddTheirOwn) {
  ASSERT_EQ(first_.prepare(memory_.base() + 2 * kPage, 3 * kPage, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "SSS");
  EXPECT_EQ(second_.daemon.allocs, 2u);
  EXPECT_EQ(second_.daemon.joins, joins(1));
  EXPECT_TRUE(second_.sees(theirs_, memory_));
  ASSERT_EQ(prepare(first_, ours_), "SSS");
  EXPECT_EQ(first_.daemon.joins, joins(2));
  EXPECT_TRUE(first_.sees(ours_, memory_));
  ASSERT_EQ(third_.prepare(memory_.base() + kPage + 5, 3 * kPage, others_), "SS");
  EXPECT_EQ(third_.daemon.joins, joins(2));
  EXPECT_TRUE(memory_.intact());
}

TEST_F(Sessions, MemoryInUseIsNotExchangedWhenTheSessionThatMadeItEnds) {
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  const std::uint32_t handle = theirs_.all()[0].handle;
  first_.registry.reset();
  ASSERT_EQ(prepare(second_, others_), "S");
  EXPECT_EQ(others_.all()[0].handle, handle) << "else the region before would see other bytes";
  memory_.base()[7] = 42;
  EXPECT_TRUE(second_.sees(theirs_, memory_));
  // A third session finds the memory through the second, which holds it now.
  ExtentList more;
  ASSERT_EQ(prepare(third_, more), "S");
  EXPECT_EQ(third_.daemon.joins, joins(1));
  EXPECT_TRUE(third_.sees(more, memory_));
  third_.registry->release(more.all());
  second_.registry->release(theirs_.all());
  EXPECT_TRUE(second_.daemon.freed.empty());
  second_.registry->release(others_.all());
  EXPECT_EQ(second_.registry->idle_bytes(), 8 * kPage) << "it is the second's to give back";
}

TEST_F(Sessions, MemoryInUseIsNotExchangedWhenItIsIdleInTheSessionThatMadeIt) {
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  first_.registry->release(ours_.all());
  Anonymous more(8);
  ASSERT_EQ(first_.prepare(more.base(), more.bytes(), others_), "S");
  first_.registry->release(others_.all());  // too much is idle: the longest unused is given back
  EXPECT_EQ(first_.daemon.freed.size(), 1u);
  ASSERT_EQ(prepare(second_, others_), "S");
  EXPECT_EQ(others_.all()[0].handle, theirs_.all()[0].handle);
  EXPECT_EQ(second_.daemon.allocs, 0u);
  ASSERT_EQ(prepare(first_, ours_), "S");
  EXPECT_EQ(first_.daemon.joins, joins(1));
  EXPECT_TRUE(first_.sees(ours_, memory_));
  EXPECT_TRUE(second_.sees(theirs_, memory_));
}

TEST_F(Sessions, WhatNobodyUsesIsSharedAnewWhenTheSessionThatMadeItEnds) {
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  second_.registry->release(theirs_.all());
  first_.registry.reset();
  ASSERT_EQ(prepare(second_, theirs_), "S");
  EXPECT_EQ(second_.daemon.allocs, in_machine() ? 0u : 1u);
  EXPECT_TRUE(memory_.intact());
  EXPECT_TRUE(second_.sees(theirs_, memory_));
}

TEST_F(Sessions, WhoHasJoinedAndEndsLeavesItToTheOthers) {
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  ASSERT_EQ(prepare(third_, others_), "S");
  second_.registry.reset();
  first_.registry.reset();
  memory_.base()[7] = 42;
  EXPECT_TRUE(third_.sees(others_, memory_));
  third_.registry.reset();
  Opened fourth;
  ASSERT_EQ(prepare(fourth, ours_), "S");
  EXPECT_EQ(fourth.daemon.allocs, in_machine() ? 0u : 1u);
}

TEST_F(Sessions, WhatTheDaemonHasGivenUpIsSharedAnew) {
  if (in_machine()) GTEST_SKIP() << "in a machine it gives nothing up";
  ASSERT_EQ(prepare(first_, ours_), "S");
  ASSERT_EQ(prepare(second_, theirs_), "S");
  first_.registry->release(ours_.all());
  const std::uint32_t gone = ours_.all()[0].handle;
  first_.daemon.given_up.insert(gone);
  second_.registry->forget(theirs_.all());  // that is how it is told
  EXPECT_EQ(second_.daemon.freed.size(), 1u);
  ASSERT_EQ(prepare(second_, theirs_), "S");
  EXPECT_EQ(second_.daemon.allocs, 1u);
  EXPECT_TRUE(first_.daemon.freed.contains(gone));
  EXPECT_TRUE(memory_.intact());
  EXPECT_TRUE(second_.sees(theirs_, memory_));
}

TEST_F(Sessions, WhatCannotBeJoinedIsLeft) {
  if (in_machine()) GTEST_SKIP() << "in a machine sessions have the same handles";
  ASSERT_EQ(prepare(first_, ours_), "S");
  second_.daemon.join_error = EACCES;
  EXPECT_EQ(prepare(second_, theirs_), "P");
  first_.daemon.given_up.insert(ours_.all()[0].handle);  // though it has a region in it
  second_.daemon.join_error = 0;
  EXPECT_EQ(prepare(second_, theirs_), "P");
  EXPECT_TRUE(memory_.intact());
  EXPECT_TRUE(first_.sees(ours_, memory_));
}

TEST_F(Sessions, UnmappedMemoryInUseIsKept) {
  {
    Anonymous memory(4);
    ASSERT_EQ(first_.prepare(memory.base(), memory.bytes(), ours_), "S");
    ASSERT_EQ(second_.prepare(memory.base(), memory.bytes(), theirs_), "S");
    first_.registry->release(ours_.all());
  }
  for (int i = 0; i < 300 && first_.daemon.freed.empty(); ++i) {
    ASSERT_EQ(prepare(first_, others_), "S");
    first_.registry->release(others_.all());
  }
  EXPECT_EQ(first_.daemon.freed.size(), 1u);
  second_.registry->release(theirs_.all());
  EXPECT_EQ(second_.registry->idle_bytes(), 4 * kPage);
}

TEST_F(Sessions, RegisterAtOnceWhatThreadsWriteTo) {
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 32;
  for (int round = 0; round < 50; ++round) {
    Anonymous memory(kPages, 0);
    std::memset(memory.base(), 0, memory.bytes());
    Opened sessions[3];
    Writers writers(memory.base(), kPages, 1);
    std::atomic<int> bad{0};
    std::vector<std::jthread> threads;
    for (Opened& session : sessions)
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) {
          ExtentList extents;
          if (session.prepare(memory.base(), memory.bytes(), extents) != "S") ++bad;
          session.registry->release(extents.all());
        }
      });
    threads.clear();
    writers.stop();
    ASSERT_EQ(writers.lost(), 0u);
    ASSERT_EQ(bad, 0);
  }
}

}  // namespace
}  // namespace softhca::provider
