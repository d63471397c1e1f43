// SPDX-License-Identifier: Apache-2.0

// The registry shares memory without changing its content, and finds memory that it already shares.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

char bss[16 * kPage];
char data_section[16 * kPage] = {1, 2, 3};

class Registry : public testing::Test {
 protected:
  std::string prepare(const void* addr, std::size_t length) {
    last_error_ = registry_.prepare(region(addr, length), extents_);
    return last_error_ != 0 ? "error" : shape(addr, length, extents_);
  }

  FakeDaemon daemon_;
  MemoryRegistry registry_{daemon_.source()};
  ExtentList extents_;
  int last_error_ = 0;
};

TEST_F(Registry, SharesWholePagesInPlaceAndKeepsTheirContent) {
  Anonymous memory(16);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_TRUE(memory.intact());
  daemon_.write(extents_.all(), memory.base() + 5 * kPage + 3, 77);
  EXPECT_EQ(memory.base()[5 * kPage + 3], 77);
  memory.base()[9] = 78;
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes()));
}

TEST_F(Registry, LeavesHeadAndTail) {
  Anonymous memory(4);
  EXPECT_EQ(prepare(memory.base() + 100, 3 * kPage), "PSP");
  EXPECT_EQ(extents_.all()[1].addr, reinterpret_cast<std::uint64_t>(memory.base() + kPage));
  EXPECT_EQ(extents_.all()[1].length, 2 * kPage);
  EXPECT_TRUE(memory.intact());
}

TEST_F(Registry, LeavesWhatHoldsNoWholePage) {
  Anonymous memory(2);
  EXPECT_EQ(prepare(memory.base() + 8, kPage), "P");
  EXPECT_EQ(prepare(memory.base() + 8, 1), "P");
  EXPECT_EQ(daemon_.allocs, 0u);
}

TEST_F(Registry, AnEmptyRegionHasNoExtents) {
  Anonymous memory(1);
  EXPECT_EQ(prepare(memory.base(), 0), "");
}

TEST_F(Registry, SharesLargeMemoryOfSeveralPieces) {
  Anonymous memory(5 * Replacer::kPieceBytes / kPage / 2);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes()));
}

TEST_F(Registry, ALargeRegionHasSeveralMemfds) {
  MemoryRegistry registry(daemon_.source(), {.memfd_bytes = 8 * kPage}, KernelCalls::real());
  Anonymous memory(60);
  ExtentList extents;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "SSSSSSSS");
    EXPECT_TRUE(memory.intact());
    EXPECT_TRUE(daemon_.sees_the_same(extents.all(), memory.base(), memory.bytes()));
    EXPECT_EQ(daemon_.allocs, 8u);
    registry.release(extents.all());
  }
}

TEST_F(Registry, ALargeRegionHasNoMoreMemfdsThanExtents) {
  MemoryRegistry registry(daemon_.source(), {.memfd_bytes = kPage}, KernelCalls::real());
  const std::size_t bytes = 70 * Replacer::kPieceBytes + kPage;
  Anonymous memory(bytes / kPage);
  ::mprotect(memory.base() + 8 * kPage, kPage, PROT_READ);
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  const std::string found = shape(memory.base(), memory.bytes(), extents);
  EXPECT_EQ(found, "SP" + std::string(found.size() - 2, 'S'));
  EXPECT_LT(found.size(), 70u);
  EXPECT_TRUE(memory.intact());
}

TEST_F(Registry, SharesHeapAndBss) {
  const std::size_t bytes = 100000;  // below malloc's threshold for mmap: in the heap
  char* heap = static_cast<char*>(std::malloc(bytes));
  Anonymous::fill(heap, bytes, 3);
  EXPECT_EQ(prepare(heap, bytes), "PSP");
  EXPECT_TRUE(Anonymous::holds(heap, bytes, 3));
  std::free(heap);

  Anonymous::fill(bss, sizeof(bss), 4);
  const std::string found = prepare(bss, sizeof(bss));
  EXPECT_NE(found.find('S'), std::string::npos) << found;
  EXPECT_TRUE(Anonymous::holds(bss, sizeof(bss), 4));
}

TEST_F(Registry, TheHeapGrowsAndShrinksOverSharedPages) {
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) {
    void* block = std::malloc(100000);
    ASSERT_EQ(registry_.prepare(region(block, 100000), extents_), 0);
    registry_.release(extents_.all());
    blocks.push_back(block);
  }
  for (void* block : blocks) std::free(block);  // trims the heap
  for (int i = 0; i < 64; ++i) {
    auto* block = static_cast<char*>(std::calloc(1, 100000));
    for (std::size_t at = 0; at < 100000; ++at) ASSERT_EQ(block[at], 0);
    std::memset(block, i, 100000);
    blocks[static_cast<std::size_t>(i)] = block;
  }
  for (void* block : blocks) std::free(block);
}

TEST_F(Registry, LeavesStackFilesDataAndReadOnlyMemory) {
  char stack[20 * kPage];  // AddressSanitizer puts less than 64 KiB elsewhere
  Anonymous::fill(stack, sizeof(stack), 5);
  EXPECT_EQ(prepare(stack, sizeof(stack)), "P");
  EXPECT_TRUE(Anonymous::holds(stack, sizeof(stack), 5));
  EXPECT_EQ(prepare(data_section, sizeof(data_section)), "P");

  char name[] = "/tmp/softhca-share-XXXXXX";
  const int fd = ::mkstemp(name);
  ASSERT_EQ(::ftruncate(fd, 4 * kPage), 0);
  for (const int flags : {MAP_PRIVATE, MAP_SHARED}) {
    void* file = ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, flags, fd, 0);
    EXPECT_EQ(prepare(file, 4 * kPage), "P");
    ::munmap(file, 4 * kPage);
  }
  ::close(fd);
  ::unlink(name);

  void* shared =
      ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(prepare(shared, 4 * kPage), "P");
  ::munmap(shared, 4 * kPage);

  Anonymous memory(4);
  ::mprotect(memory.base(), memory.bytes(), PROT_READ);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "P");
  ::mprotect(memory.base(), memory.bytes(), PROT_READ | PROT_WRITE | PROT_EXEC);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "P");
  EXPECT_EQ(daemon_.allocs, 0u);
}

TEST_F(Registry, SharesWhatItCanOfAMixedRange) {
  Anonymous memory(8);
  ::mprotect(memory.base() + 2 * kPage, kPage, PROT_READ);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "SPS");
  EXPECT_TRUE(memory.intact());
}

TEST_F(Registry, AdjoiningMappingsShareOneMemfd) {
  Anonymous memory(8);
  // Two mappings in the kernel's eyes, by an attribute the list does not show.
  ::madvise(memory.base(), 4 * kPage, MADV_DONTDUMP);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_EQ(daemon_.allocs, 1u);
  EXPECT_TRUE(memory.intact());
}

TEST_F(Registry, RefusesWhatIsNotMapped) {
  Anonymous memory(8);
  ::munmap(memory.base() + 4 * kPage, kPage);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "error");
  EXPECT_EQ(last_error_, EFAULT);
  EXPECT_EQ(prepare(reinterpret_cast<void*>(kPage), kPage), "error");
  EXPECT_EQ(last_error_, EFAULT);
  ::mprotect(memory.base(), kPage, PROT_NONE);
  EXPECT_EQ(prepare(memory.base(), kPage), "error");
  EXPECT_EQ(last_error_, EFAULT);
  EXPECT_EQ(prepare(memory.base(), ~std::size_t{0}), "error");
  EXPECT_EQ(last_error_, EINVAL);
  EXPECT_EQ(daemon_.allocs, 0u);
  EXPECT_TRUE(extents_.all().empty());
}

TEST_F(Registry, FindsSharedMemoryAgain) {
  Anonymous memory(16);
  prepare(memory.base(), memory.bytes());
  const std::uint32_t handle = extents_.all()[0].handle;
  EXPECT_EQ(prepare(memory.base() + 3 * kPage + 5, 100), "S");
  EXPECT_EQ(extents_.all()[0].handle, handle);
  EXPECT_EQ(extents_.all()[0].offset, 3 * kPage + 5);
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base() + 3 * kPage + 5, 100));
  EXPECT_EQ(daemon_.allocs, 1u);
}

TEST_F(Registry, OverlappingRegionsShareOnlyWhatIsNew) {
  Anonymous memory(16);
  prepare(memory.base() + 4 * kPage, 4 * kPage);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "SSS");
  EXPECT_EQ(daemon_.allocs, 3u);
  EXPECT_TRUE(memory.intact());
  EXPECT_EQ(prepare(memory.base() + kPage, 14 * kPage), "SSS");
  EXPECT_EQ(daemon_.allocs, 3u);
}

TEST_F(Registry, TrustsNoMemoryOfWhatWasMapped) {
  Anonymous memory(8);
  prepare(memory.base(), memory.bytes());
  registry_.release(extents_.all());
  // The application puts other memory at the same address.
  ASSERT_NE(::mmap(memory.base(), 4 * kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  Anonymous::fill(memory.base(), 4 * kPage, 9);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "SS");
  EXPECT_EQ(extents_.all()[1].offset, 4 * kPage);
  EXPECT_TRUE(Anonymous::holds(memory.base(), 4 * kPage, 9));
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes()));
}

TEST_F(Registry, FollowsMemoryThatWasMoved) {
  Anonymous memory(8);
  prepare(memory.base(), memory.bytes());
  const std::uint32_t handle = extents_.all()[0].handle;
  void* to = ::mmap(nullptr, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* moved = static_cast<char*>(
      ::mremap(memory.base(), 8 * kPage, 8 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to));
  EXPECT_EQ(prepare(moved + kPage, kPage), "S");
  EXPECT_EQ(extents_.all()[0].handle, handle);
  EXPECT_EQ(extents_.all()[0].offset, kPage);
  ::munmap(moved, 8 * kPage);
}

TEST_F(Registry, TooManyPiecesAreReachedByProcess) {
  Anonymous memory(2 * abi::kMaxMrExtents);
  for (std::size_t page = 0; page < 2 * abi::kMaxMrExtents; page += 2) {
    ::mprotect(memory.base() + page * kPage, kPage, PROT_READ);
  }
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "P");
  EXPECT_EQ(daemon_.allocs, 0u);
  // At the limit it still fits.
  EXPECT_EQ(prepare(memory.base(), abi::kMaxMrExtents * kPage).size(), abi::kMaxMrExtents);
}

TEST_F(Registry, MemoryOfASessionThatEndedIsSharedAnew) {
  Anonymous memory(4);
  prepare(memory.base(), memory.bytes());
  FakeDaemon other;
  {
    MemoryRegistry second(other.source());
    Anonymous theirs(4, 6);
    ExtentList extents;
    ASSERT_EQ(second.prepare(region(theirs.base(), theirs.bytes()), extents), 0);
    ASSERT_EQ(shape(theirs.base(), theirs.bytes(), extents), "S");
    ::mremap(theirs.base(), theirs.bytes(), theirs.bytes(), MREMAP_MAYMOVE | MREMAP_FIXED,
             memory.base());
  }
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_EQ(daemon_.allocs, in_machine() ? 1u : 2u);
  EXPECT_TRUE(memory.intact(6));
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes()));
  EXPECT_TRUE(other.freed.empty());
}

}  // namespace
}  // namespace softhca::provider
