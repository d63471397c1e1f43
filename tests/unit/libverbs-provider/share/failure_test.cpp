// SPDX-License-Identifier: Apache-2.0

// Every system call on the way may fail: the memory must be as it was, or shared, never lost.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "libverbs-provider/share/process.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"
#include "tests/unit/libverbs-provider/share/writers.hpp"

namespace softhca::provider {
namespace {

int calls_until_failure = -1;  ///< negative: none fails

bool fails_now() { return calls_until_failure >= 0 && calls_until_failure-- == 0; }

void* failing_map(void* addr, std::size_t length, int prot, int flags, int fd, off_t offset) {
  return fails_now() ? MAP_FAILED : ::mmap(addr, length, prot, flags, fd, offset);
}
void* failing_move(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                   void* new_addr) {
  return fails_now() ? MAP_FAILED : ::mremap(old_addr, old_length, new_length, flags, new_addr);
}
int failing_advise(void* addr, std::size_t length, int advice) {
  return fails_now() ? -1 : ::madvise(addr, length, advice);
}
int failing_reserve(int fd, int mode, off_t offset, off_t length) {
  return fails_now() ? -1 : ::fallocate(fd, mode, offset, length);
}
int failing_userfaultfd(int flags) {
  return fails_now() ? -1 : KernelCalls::real().userfaultfd(flags);
}
int failing_control(int fd, unsigned long request, void* argument) {
  errno = EIO;
  return fails_now() ? -1 : KernelCalls::real().control(fd, request, argument);
}
bool never_alone() { return false; }

constexpr KernelCalls kFailing{failing_map,     ::munmap,        failing_move,
                               failing_advise,  failing_reserve, failing_userfaultfd,
                               failing_control, never_alone};

constexpr std::size_t kBytes = 2 * Replacer::kPieceBytes + 3 * kPage;

std::size_t mappings_in(const void* addr, std::size_t length) {
  const auto begin = reinterpret_cast<std::uint64_t>(addr);
  MapsReader maps;
  Mapping mapping;
  std::size_t count = 0;
  while (maps.next(mapping)) count += mapping.begin < begin + length && mapping.end > begin;
  return count;
}

bool moves_fail = false;
void* move_while_allowed(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                         void* new_addr) {
  errno = ENOMEM;
  if ((flags & MREMAP_FIXED) != 0 && moves_fail) return MAP_FAILED;
  return KernelCalls::real().move(old_addr, old_length, new_length, flags, new_addr);
}
int old_kernel(int fd, unsigned long request, void* argument) {
  auto* api = static_cast<uffdio_api*>(argument);
  errno = EINVAL;
  if (request == UFFDIO_API && (api->features & (1 << 16)) != 0) return -1;  // UFFD_FEATURE_MOVE
  return KernelCalls::real().control(fd, request, argument);
}

TEST(Failure, ToMoveMappings_ForGood_LeavesTheContent) {
  for (const bool has_move : {true, false}) {
    for (const bool alone : {true, false}) {
      KernelCalls kernel = KernelCalls::real();
      kernel.move = move_while_allowed;
      if (!has_move) kernel.control = old_kernel;
      if (alone) kernel.userfaultfd = [](int) { return -1; };
      if (alone) kernel.single_threaded = [] { return true; };
      FakeDaemon daemon;
      MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kernel);
      Anonymous memory(kBytes / kPage);
      if (!alone) std::memset(memory.base(), 0, memory.bytes());
      Writers writers(memory.base(), alone ? 0 : kBytes / kPage, alone ? 0 : 1);
      if (!alone) ::usleep(1000);
      moves_fail = true;
      ExtentList extents;
      ASSERT_EQ(registry.prepare(region(memory.base(), kBytes), extents), 0);
      EXPECT_EQ(shape(memory.base(), kBytes, extents), "P");
      writers.stop();
      EXPECT_EQ(writers.lost(), 0u);
      EXPECT_TRUE(!alone || memory.intact());
      registry.release(extents.all());
      moves_fail = false;
      ASSERT_EQ(registry.prepare(region(memory.base(), kBytes), extents), 0);
      EXPECT_EQ(shape(memory.base(), kBytes, extents), "S");
    }
  }
}

TEST(Failure, HalfOfTheMappingsAreUsed_NothingMoreIsExchanged) {
  const std::size_t limit = mappings_allowed();
  if (limit > 1'000'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached";
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, KernelCalls::real());
  const auto shape_after = [&](int calls, const char* wanted) {
    std::string seen;
    for (int i = 0; i < calls && seen != wanted; ++i) {
      Anonymous memory(1);
      ExtentList extents;
      EXPECT_EQ(registry.prepare(region(memory.base(), kPage), extents), 0);
      seen = shape(memory.base(), kPage, extents);
      registry.release(extents.all());
    }
    return seen;
  };
  EXPECT_EQ(shape_after(1, "S"), "S");
  char* many = fill_mappings(limit, limit / 2 - 100);
  EXPECT_EQ(shape_after(100, "P"), "P");
  ::munmap(many, limit * kPage);
  EXPECT_EQ(shape_after(5000, "S"), "S");
}

TEST(Failure, OfMappingsThatAreUsedUp_LeavesTheContent) {
  const std::size_t limit = mappings_allowed();
  if (limit > 1'000'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached";
  for (const std::size_t left : {0, 2, 4, 6, 7, 8, 9, 10}) {
    FakeDaemon daemon;
    MemoryRegistry registry(daemon.source());
    Anonymous memory(kBytes / kPage);
    Anonymous page_of(9);
    const pid_t child = ::fork();
    if (child == 0) {
      MemoryRegistry own(daemon.source());
      std::vector<void*> room;
      room.reserve(64);
      char* many = fill_mappings(limit, left);
      ExtentList first;
      ExtentList second;
      const bool prepared = own.prepare(region(page_of.base() + 4 * kPage, kPage), first) == 0 &&
                            own.prepare(region(memory.base(), kBytes), second) == 0;
      const bool intact = memory.intact() && page_of.intact();
      ::munmap(many, limit * kPage);
      own.release(second.all());
      const bool again = own.prepare(region(memory.base(), kBytes), second) == 0 &&
                         shape(memory.base(), kBytes, second).find('P') == std::string::npos;
      ::_exit(prepared && intact && again && memory.intact() ? 0 : 1 + prepared + 2 * intact);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << left << " left";
  }
}

class Failures : public testing::TestWithParam<bool> {};

/// With true: the memory is a memfd's that was given back, and is shared anew.
TEST_P(Failures, LeaveTheMemoryAsItWas) {
  if (GetParam() && in_machine()) GTEST_SKIP() << "in a machine it is adopted";
  bool failed = true;
  int calls = 0;
  for (; failed; ++calls) {
    ASSERT_LT(calls, 100);
    FakeDaemon daemon;
    MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kFailing);
    Anonymous memory(kBytes / kPage);
    ExtentList extents;
    if (GetParam()) {
      ASSERT_EQ(registry.prepare(region(memory.base(), kBytes), extents), 0);
      registry.release(extents.all());
    }
    calls_until_failure = calls;
    ASSERT_EQ(registry.prepare(region(memory.base(), kBytes), extents), 0);
    failed = calls_until_failure < 0;
    calls_until_failure = -1;
    ASSERT_EQ(shape(memory.base(), kBytes, extents).find('!'), std::string::npos);
    ASSERT_TRUE(memory.intact()) << "call " << calls;
    // Written on both sides of whatever border there is now, and still one memory.
    Anonymous::fill(memory.base(), kBytes, 5);
    ASSERT_TRUE(memory.intact(5));
    for (const abi::MrExtent& extent : extents.all()) {
      if (extent.kind == static_cast<std::uint32_t>(abi::ExtentKind::kProcess)) continue;
      const char* addr = reinterpret_cast<char*>(extent.addr);
      ASSERT_TRUE(daemon.sees_the_same(extents.all(), addr, extent.length));
    }
    registry.release(extents.all());
    ASSERT_EQ(daemon.freed.size(), daemon.allocs) << "call " << calls;
    // What failed once is not spoilt for ever.
    ASSERT_EQ(registry.prepare(region(memory.base(), kBytes), extents), 0);
    ASSERT_EQ(shape(memory.base(), kBytes, extents).find('P'), std::string::npos);
    ASSERT_TRUE(memory.intact(5));
  }
  EXPECT_GT(calls, 8);  // reserve, userfaultfd, its API, and four calls for each piece at least
}

INSTANTIATE_TEST_SUITE_P(FirstAndAnew, Failures, testing::Values(false, true));

/// As above, with a thread at work in the memory all the time; none may sleep for ever.
TEST_P(Failures, WakeTheWriters) {
  if (!userfaultfd_works()) GTEST_SKIP() << "userfaultfd is not permitted here";
  constexpr std::size_t kPages = 16;
  for (int calls = 0; calls < 12; ++calls) {
    for (int round = 0; round < 20; ++round) {
      FakeDaemon daemon;
      MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kFailing);
      Anonymous memory(kPages);
      std::memset(memory.base(), 0, memory.bytes());
      ExtentList extents;
      if (GetParam()) {
        ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
        registry.release(extents.all());
      }
      Writers writers(memory.base(), kPages, 1);
      calls_until_failure = calls;
      ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
      calls_until_failure = -1;
      writers.stop();
      ASSERT_EQ(writers.lost(), 0u) << "call " << calls;
      registry.release(extents.all());
    }
  }
}

int reservations_left = 0;
int failing_after(int fd, int mode, off_t offset, off_t length) {
  return reservations_left-- > 0 ? ::fallocate(fd, mode, offset, length) : -1;
}

TEST(Failure, ToReserveMemoryLeavesTheRest) {
  KernelCalls kernel = KernelCalls::real();
  kernel.reserve = failing_after;
  for (const int pieces : {0, 1, 3}) {
    FakeDaemon daemon;
    MemoryRegistry registry(daemon.source(), {}, kernel);
    Anonymous memory(4 * Replacer::kPieceBytes / kPage);
    reservations_left = pieces;
    ExtentList extents;
    ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), pieces == 0 ? "P" : "SP");
    EXPECT_TRUE(memory.intact());
    registry.release(extents.all());
    EXPECT_EQ(daemon.freed.size(), pieces == 0 ? 1u : 0u);
    EXPECT_EQ(registry.idle_bytes(), pieces == 0 ? 0u : memory.bytes());
  }
}

/// Bytes of anonymous memory of this process.
std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (status >> word && word != "RssAnon:") {
  }
  status >> kilobytes;
  return kilobytes << 10;
}

std::uint64_t peak;  ///< of anonymous memory and what was reserved beside it
int measuring_reserve(int fd, int mode, off_t offset, off_t length) {
  const int result = ::fallocate(fd, mode, offset, length);
  struct stat file;
  ::fstat(fd, &file);
  peak = std::max(peak, anonymous_bytes() + static_cast<std::uint64_t>(file.st_blocks) * 512);
  return result;
}

TEST(Peak, OnlyOnePieceIsThereTwice) {
  if (in_machine()) GTEST_SKIP() << "the file of a machine has all pieces";
  constexpr std::uint64_t kSlack = 8 << 20;  // the kernel's counters are a little behind
  KernelCalls kernel = KernelCalls::real();
  kernel.reserve = measuring_reserve;
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {}, kernel);
  Anonymous memory((64 << 20) / kPage);
  const std::uint64_t before = anonymous_bytes();
  peak = 0;
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  ASSERT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
  EXPECT_LE(peak, before + Replacer::kPieceBytes + kSlack);
}

TEST(Failure, OfTheDaemonIsNotFatal) {
  FakeDaemon daemon;
  daemon.error = EDQUOT;
  MemoryRegistry registry(daemon.source());
  Anonymous memory(4);
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "P");
  EXPECT_TRUE(memory.intact());
  EXPECT_EQ(mappings_in(memory.base(), memory.bytes()), 1u);
}

int no_userfaultfd(int) {
  errno = EPERM;
  return -1;
}

TEST(WithoutUserfaultfd, OneThreadNeedsNone) {
  KernelCalls kernel = KernelCalls::real();
  kernel.userfaultfd = no_userfaultfd;
  for (const bool alone : {true, false}) {
    kernel.single_threaded = alone ? [] { return true; } : [] { return false; };
    FakeDaemon daemon;
    MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kernel);
    Anonymous memory(4);
    ExtentList extents;
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
      EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), alone ? "S" : "P");
      EXPECT_TRUE(memory.intact());
      registry.release(extents.all());
    }
    EXPECT_EQ(daemon.allocs, daemon.freed.size());
  }
}

TEST(Failure, OfOneExtentTooManyGivesAllUp) {
  // Two adjoining mappings share a memfd and make one extent, unless sharing stops in the middle
  // of the first; single pages follow until there are 256 pieces, and then 257 extents.
  const std::size_t big = Replacer::kPieceBytes / kPage + 1;
  Anonymous memory(big + 1 + abi::kMaxMrExtents - 2);
  ::madvise(memory.base(), big * kPage, MADV_DONTDUMP);
  for (std::size_t i = 0; i < abi::kMaxMrExtents - 2; i += 2) {
    ::mprotect(memory.base() + (big + 1 + i) * kPage, kPage, PROT_READ);
  }
  KernelCalls kernel = KernelCalls::real();
  static int maps;
  maps = 0;
  kernel.map = [](void* addr, std::size_t length, int prot, int flags, int fd, off_t offset) {
    if (fd >= 0 && ++maps == 2) return MAP_FAILED;
    return ::mmap(addr, length, prot, flags, fd, offset);
  };
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kernel);
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "P");
  EXPECT_TRUE(memory.intact());
  registry.release(extents.all());
  EXPECT_EQ(daemon.freed.size(), daemon.allocs);
}

}  // namespace
}  // namespace softhca::provider
