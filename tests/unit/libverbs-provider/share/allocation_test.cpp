// SPDX-License-Identifier: Apache-2.0

// Large allocations, which the C library maps for themselves: they are shared whole, and stay what
// malloc, realloc and free take them for.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>

#include <cstdlib>

#include "libverbs-provider/share/chunks.hpp"
#include "libverbs-provider/share/ours.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"
#include "tests/unit/libverbs-provider/share/writers.hpp"

namespace softhca::provider {
namespace {

constexpr std::size_t kBlock = 300000;

std::uint64_t number(const void* addr) { return reinterpret_cast<std::uint64_t>(addr); }

bool is_glibc() {
#ifdef __GLIBC__
  return true;
#else
  return false;
#endif
}

class Allocation : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_glibc() || kSanitized) GTEST_SKIP() << "another allocator";
    // Else the threshold rises with what is freed.
    ASSERT_EQ(::mallopt(M_MMAP_THRESHOLD, 128 << 10), 1);
    block_ = static_cast<char*>(std::malloc(kBlock));
    if (pages_of_allocation(number(block_)).end == 0)
      GTEST_SKIP() << "this allocator does not map large blocks as glibc does";
    Anonymous::fill(block_, kBlock, 3);
  }
  void TearDown() override { std::free(block_); }

  std::string prepare(const char* addr, std::size_t length) {
    if (registry_.prepare(region(addr, length), extents_) != 0) return "error";
    return shape(addr, length, extents_);
  }

  char* block_ = nullptr;
  FakeDaemon daemon_;
  MemoryRegistry registry_{daemon_.source()};
  ExtentList extents_;
};

TEST_F(Allocation, IsSharedToItsEnds) {
  ASSERT_EQ(prepare(block_, kBlock), "S");
  EXPECT_EQ(extents_.all()[0].addr, number(block_));
  EXPECT_EQ(extents_.all()[0].length, kBlock);
  EXPECT_TRUE(Anonymous::holds(block_, kBlock, 3));
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), block_, kBlock));
  EXPECT_EQ(daemon_.to_seal.empty(), in_machine());
  daemon_.write(extents_.all(), block_, 77);
  daemon_.write(extents_.all(), block_ + kBlock - 1, 78);
  EXPECT_EQ(block_[0], 77);
  EXPECT_EQ(block_[kBlock - 1], 78);
  // A part of it is found again, wherever that begins.
  EXPECT_EQ(prepare(block_ + 1, 100), "S");
  EXPECT_EQ(daemon_.allocs, 1u);
}

TEST_F(Allocation, IsSharedWithinALargerOne) {
  ASSERT_EQ(prepare(block_, kBlock - 2 * kPage - 5), "S") << "a part that begins where it does";
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), block_, kBlock - 2 * kPage - 5));
  EXPECT_EQ(prepare(block_, kBlock), "SS") << "the rest";
  EXPECT_TRUE(Anonymous::holds(block_, kBlock, 3));
  for (const abi::MrExtent& extent : extents_.all())
    EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), block_ + (extent.addr - number(block_)),
                                      extent.length));
}

TEST_F(Allocation, ThatIsAlignedIsSharedToItsEnd) {
  for (const std::size_t alignment : {kPage, 16 * kPage, std::size_t{64}}) {
    void* aligned = nullptr;
    ASSERT_EQ(::posix_memalign(&aligned, alignment, kBlock), 0);
    auto* const memory = static_cast<char*>(aligned);
    Anonymous::fill(memory, kBlock, 4);
    EXPECT_EQ(prepare(memory, kBlock), "S") << alignment;
    EXPECT_TRUE(Anonymous::holds(memory, kBlock, 4));
    EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory, kBlock));
    std::free(memory);
  }
}

TEST_F(Allocation, OfWhichThePartBeginsElsewhereIsLeftAtTheEnds) {
  EXPECT_EQ(prepare(block_ + 48, kBlock - 48), "PSP");
}

/// Its realloc would else map what lies behind the end of the memfd, or of another block in it.
TEST_F(Allocation, GrowsByCopying) {
  auto* const other = static_cast<char*>(std::malloc(kBlock));
  Anonymous::fill(other, kBlock, 5);
  // As programs register that round to pages, and one region for both if they lie side by side.
  const auto page_of = [](const char* addr) { return addr - 16; };
  char* const low = std::min(block_, other);
  char* const high = std::max(block_, other);
  const auto pages = static_cast<std::size_t>(page_end(number(high) + kBlock) - number(low) + 16);
  const bool adjoining = pages_of_allocation(number(low)).end == number(page_of(high));
  for (char* at : {low, high}) {
    const std::size_t length = adjoining ? pages : page_end(kBlock + 16);
    ASSERT_EQ(registry_.prepare(region(page_of(at), length), extents_), 0);
    if (adjoining) break;
  }
  const char low_seed = low == block_ ? 3 : 5, high_seed = low == block_ ? 5 : 3;
  auto* const grown = static_cast<char*>(std::realloc(low, 8 * kBlock));
  EXPECT_TRUE(Anonymous::holds(grown, kBlock, low_seed));
  std::memset(grown, 1, 8 * kBlock);  // a bus error, if it were beyond the end of a memfd
  EXPECT_TRUE(Anonymous::holds(high, kBlock, high_seed));
  auto* const grown_too = static_cast<char*>(std::realloc(high, 8 * kBlock));
  std::memset(grown_too, 2, 8 * kBlock);
  EXPECT_EQ(grown[8 * kBlock - 1], 1);
  auto* const shrunk = static_cast<char*>(std::realloc(grown_too, kBlock));
  EXPECT_EQ(shrunk[kBlock - 1], 2);
  std::free(grown);
  block_ = shrunk;
}

TEST_F(Allocation, ThatIsAlignedGrowsByCopying) {
  void* aligned = nullptr;
  ASSERT_EQ(::posix_memalign(&aligned, 16 * kPage, kBlock), 0);
  Anonymous::fill(static_cast<char*>(aligned), kBlock, 4);
  ASSERT_EQ(prepare(static_cast<char*>(aligned), kBlock), "S");
  auto* const grown = static_cast<char*>(std::realloc(aligned, 8 * kBlock));
  EXPECT_TRUE(Anonymous::holds(grown, kBlock, 4));
  std::memset(grown, 1, 8 * kBlock);
  std::free(grown);
}

TEST_F(Allocation, LosesNothingWhileThreadsWriteAtItsEnds) {
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 48;
  for (int round = 0; round < 100; ++round) {
    auto* const memory = static_cast<char*>(std::malloc(kPages * kPage - 100));
    std::memset(memory, 0, kPages * kPage - 100);
    Writers writers(memory, kPages - 1, 2);  // the words of each page, from the first byte on
    ASSERT_EQ(prepare(memory, kPages * kPage - 100), "S");
    writers.stop();
    ASSERT_EQ(writers.lost(), 0u) << "round " << round;
    registry_.release(extents_.all());
    std::free(memory);
  }
}

TEST_F(Allocation, IsACopyInChildrenThatFreeIt) {
  auto* const memory = static_cast<char*>(std::malloc(kBlock));
  Anonymous::fill(memory, kBlock, 6);
  ASSERT_EQ(prepare(memory, kBlock), "S");
  daemon_.seal();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool whole = Anonymous::holds(memory, kBlock, 6);
    memory[0] = 1;
    std::free(memory);
    ::_exit(whole ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Anonymous::holds(memory, kBlock, 6));
  std::free(memory);
}

TEST(PagesOfAllocation, AreOnlyThoseThatTheWordsInFrontSay) {
  alignas(kPage) static char pages[4 * kPage];
  const auto say = [](std::uint64_t at, std::uint64_t before, std::uint64_t size) {
    std::memcpy(pages + at, &before, 8);
    std::memcpy(pages + at + 8, &size, 8);
    return pages_of_allocation(number(pages) + at + 16);
  };
  const std::uint64_t base = number(pages);
  EXPECT_EQ(say(0, 0, 3 * kPage | 2).begin, base);
  EXPECT_EQ(say(0, 0, 3 * kPage | 2).end, base + 3 * kPage);
  EXPECT_EQ(say(kPage - 16, kPage - 16, (kPage + 16) | 2).begin, base);
  EXPECT_EQ(say(kPage - 16, kPage - 16, (kPage + 16) | 2).end, base + 2 * kPage);
  for (const std::uint64_t flags : {0, 1, 3, 4, 5, 6, 7})
    EXPECT_EQ(say(0, 0, 3 * kPage | flags).end, 0u) << flags;
  EXPECT_EQ(say(16, 0, 3 * kPage | 2).end, 0u);
  EXPECT_EQ(say(16, 16, 3 * kPage | 2).end, 0u);
  EXPECT_EQ(say(0, 0, (3 * kPage + 16) | 2).end, 0u);
  EXPECT_EQ(say(0, ~std::uint64_t{0}, 3 * kPage | 2).end, 0u);
  EXPECT_EQ(say(0, 0, ~std::uint64_t{0} - 5).end, 0u);
  EXPECT_EQ(say(0, 0, 2).end, 0u);
  EXPECT_EQ(pages_of_allocation(base + 24).end, 0u);
  EXPECT_EQ(pages_of_allocation(0).end, 0u);
}

}  // namespace
}  // namespace softhca::provider
