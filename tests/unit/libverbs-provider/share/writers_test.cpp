// SPDX-License-Identifier: Apache-2.0

// Threads write all the time while their memory is replaced under them: no write may be lost.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"
#include "tests/unit/libverbs-provider/share/writers.hpp"

namespace softhca::provider {
namespace {

/// Makes the whole range private and anonymous again. Called between rounds, when no thread writes.
void make_anonymous(char* base, std::size_t bytes) {
  std::vector<char> content(base, base + bytes);
  ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::copy(content.begin(), content.end(), base);
}

TEST(LiveWriters, LoseNothingWhenPrivateMemoryIsReplaced) {
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 64;
  FakeDaemon daemon;
  std::size_t shared = 0;
  for (int round = 0; round < 300; ++round) {
    Anonymous memory(kPages, 0);
    std::memset(memory.base(), 0, memory.bytes());
    MemoryRegistry registry(daemon.source());
    ExtentList extents;
    Writers writers(memory.base(), kPages, 2);
    ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    shared += shape(memory.base(), memory.bytes(), extents) == "S";
    writers.stop();
    ASSERT_EQ(writers.lost(), 0u) << "round " << round;
    make_anonymous(memory.base(), memory.bytes());
  }
  EXPECT_EQ(shared, 300u);
}

TEST(LiveWriters, LoseNothingWhenMemoryIsSharedAnew) {
  if (in_machine()) GTEST_SKIP() << "in a machine it is adopted";
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 64;
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, KernelCalls::real());
  Anonymous memory(kPages, 0);
  std::memset(memory.base(), 0, memory.bytes());
  Writers writers(memory.base(), kPages, 2);
  for (int round = 0; round < 1000; ++round) {
    ExtentList extents;
    ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    ASSERT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
    registry.release(extents.all());
  }
  writers.stop();
  EXPECT_EQ(writers.lost(), 0u);
  EXPECT_EQ(daemon.allocs, 1000u);
  EXPECT_EQ(daemon.freed.size(), 1000u);
}

TEST(LiveWriters, RegisterOverlappingRangesAtOnce) {
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 64;
  FakeDaemon daemon;
  for (int round = 0; round < 50; ++round) {
    Anonymous memory(kPages, 0);
    std::memset(memory.base(), 0, memory.bytes());
    MemoryRegistry registry(daemon.source());
    Writers writers(memory.base(), kPages, 1);
    std::vector<std::thread> threads;
    std::atomic<int> bad{0};
    for (std::size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        ExtentList extents;
        char* addr = memory.base() + i * 16 * kPage;
        if (registry.prepare(region(addr, 32 * kPage), extents) != 0) ++bad;
        if (shape(addr, 32 * kPage, extents).find('P') != std::string::npos) ++bad;
        registry.release(extents.all());
      });
    }
    for (std::thread& thread : threads) thread.join();
    writers.stop();
    ASSERT_EQ(writers.lost(), 0u);
    ASSERT_EQ(bad, 0);
  }
}

}  // namespace
}  // namespace softhca::provider
