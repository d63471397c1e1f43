// SPDX-License-Identifier: Apache-2.0

// What madvise and mremap mean for private memory they mean for shared memory of ours.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <functional>

#include "libverbs-provider/share/process.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

/// True in a child that finds this to be true.
bool holds_in_child(const std::function<bool()>& condition) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(condition() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// As with the preload library: 0 or an errno value.
int advise(void* addr, std::size_t length, int advice) {
  errno = 0;
  const int result = ::madvise(addr, length, advice);
  return after_advice(addr, length, advice, result) == 0 ? 0 : errno;
}

char* remapped(void* addr, std::size_t old_length, std::size_t new_length, int flags,
               void* new_addr = nullptr) {
  void* result = nullptr;
  if (!remap({addr, old_length, new_length, flags, new_addr}, &result))
    result = ::mremap(addr, old_length, new_length, flags, new_addr);
  return static_cast<char*>(result);
}

bool zero(const char* addr, std::size_t length) {
  return std::all_of(addr, addr + length, [](char c) { return c == 0; });
}

/// In the middle of its memory lies what is shared.
class Advice : public testing::Test {
 protected:
  static constexpr std::size_t kFirst = 4 * kPage, kShared = 8 * kPage, kAll = 16 * kPage;

  Advice() {
    EXPECT_EQ(registry_.prepare(region(shared(), kShared), extents_), 0);
    EXPECT_EQ(shape(shared(), kShared, extents_), "S");
    daemon_.seal();
  }
  char* all() { return memory_.base(); }
  char* shared() { return memory_.base() + kFirst; }
  bool daemon_sees() { return daemon_.sees_the_same(extents_.all(), shared(), kShared); }

  FakeDaemon daemon_;
  MemoryRegistry registry_{daemon_.source()};
  Anonymous memory_{16};
  ExtentList extents_;
};

TEST_F(Advice, DroppedContentReadsAsZeros) {
  char* from = shared() + 2 * kPage;
  ASSERT_EQ(advise(from, 2 * kPage, MADV_DONTNEED), 0);
  EXPECT_TRUE(zero(from, 2 * kPage));
  EXPECT_TRUE(Anonymous::holds(all(), kFirst + 2 * kPage, 1));
  from[5] = 9;
  EXPECT_TRUE(daemon_sees()) << "still shared";
}

TEST_F(Advice, DroppedContentReadsAsZerosThoughItCannotBeWritten) {
  ::mprotect(shared(), kShared, PROT_READ);
  ASSERT_EQ(advise(shared(), kPage, MADV_DONTNEED), 0);
  EXPECT_TRUE(zero(shared(), kPage));
  EXPECT_EQ(shared()[kPage], Anonymous::value(kFirst + kPage, 1));
  EXPECT_TRUE(daemon_sees());
}

TEST_F(Advice, DroppingOtherMemoryTouchesNoFile) {
  const int fd = ::memfd_create("other", 0);
  ASSERT_EQ(::ftruncate(fd, kPage), 0);
  auto* file =
      static_cast<char*>(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  file[0] = 42;
  EXPECT_EQ(advise(file, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(file[0], 42);
  ::munmap(file, kPage);
  ::close(fd);
}

/// Every one the kernel knows, of shared memory and of what lies about it, in use and idle.
TEST_F(Advice, IsTakenAsForPrivateMemory) {
  const int some[] = {MADV_NORMAL,
                      MADV_RANDOM,
                      MADV_SEQUENTIAL,
                      MADV_WILLNEED,
                      MADV_DONTNEED,
                      MADV_FREE,
                      MADV_REMOVE,
                      MADV_DONTFORK,
                      MADV_DOFORK,
                      MADV_MERGEABLE,
                      MADV_UNMERGEABLE,
                      MADV_HUGEPAGE,
                      MADV_NOHUGEPAGE,
                      MADV_DONTDUMP,
                      MADV_DODUMP,
                      MADV_WIPEONFORK,
                      MADV_KEEPONFORK,
                      MADV_COLD,
                      MADV_PAGEOUT,
                      22 /* POPULATE_READ */,
                      23 /* POPULATE_WRITE */,
                      24 /* DONTNEED_LOCKED */,
                      102 /* GUARD_INSTALL */,
                      103 /* GUARD_REMOVE */,
                      12345};
  for (const bool idle : {false, true}) {
    for (const int advice : some) {
      if (advice == MADV_REMOVE && in_machine()) continue;  // a device would refuse it
      Anonymous other(16);
      errno = 0;
      const int expected = ::madvise(other.base(), kAll, advice) == 0 ? 0 : errno;
      EXPECT_EQ(advise(all(), kAll, advice), expected) << advice << (idle ? " idle" : "");
      EXPECT_EQ(advise(shared() + kPage, kPage, advice), expected) << advice;
      EXPECT_EQ(advise(shared() + 1, kPage, advice), EINVAL) << advice;
    }
    if (!idle) registry_.release(extents_.all());
  }
}

TEST_F(Advice, OfMemoryWithAGapIsTakenAllTheSame) {
  ::munmap(all() + kPage, kPage);
  EXPECT_EQ(advise(all(), kAll, MADV_FREE), ENOMEM);
  EXPECT_EQ(advise(all(), kAll, MADV_WIPEONFORK), ENOMEM);
  EXPECT_TRUE(holds_in_child([&] { return zero(shared(), kAll - kFirst); }));
  EXPECT_EQ(advise(all(), kAll, MADV_DONTNEED), ENOMEM);
  EXPECT_TRUE(zero(shared(), kAll - kFirst));
}

TEST_F(Advice, FreedMemoryHoldsWhatIsWrittenToIt) {
  ASSERT_EQ(advise(all(), kAll, MADV_FREE), 0);
  Anonymous::fill(all(), kAll, 7);
  EXPECT_TRUE(memory_.intact(7));
  EXPECT_TRUE(daemon_sees());
}

TEST_F(Advice, WipedMemoryIsEmptyInChildrenAlone) {
  ASSERT_EQ(advise(all(), kAll, MADV_WIPEONFORK), 0);
  ASSERT_EQ(advise(shared() + kPage, kPage, MADV_KEEPONFORK), 0);
  const auto wiped = [&] {
    return zero(all(), kFirst + kPage) && zero(shared() + 2 * kPage, kAll - kFirst - 2 * kPage);
  };
  const std::size_t kept = kFirst + kPage;
  EXPECT_TRUE(holds_in_child([&] {
    if (!wiped() || all()[kept] != Anonymous::value(kept, 1)) return false;
    std::memset(all(), 5, kAll);
    return holds_in_child([&] { return wiped() && all()[kept] == 5; });
  }));
  EXPECT_TRUE(memory_.intact());
  EXPECT_TRUE(daemon_sees());
  // It stays so when the memory is moved, given back and shared anew.
  registry_.forget(extents_.all());
  ASSERT_EQ(registry_.prepare(region(shared(), kShared), extents_), 0);
  EXPECT_EQ(shape(shared(), kShared, extents_), "S");
  EXPECT_TRUE(holds_in_child(wiped));
  ASSERT_EQ(advise(all(), kAll, MADV_KEEPONFORK), 0);
  EXPECT_TRUE(holds_in_child([&] { return memory_.intact(); }));
}

TEST_F(Advice, GuardedContentIsLost) {
  constexpr int kInstall = 102, kRemove = 103;
  if (::madvise(memory_.base(), kPage, kInstall) != 0) GTEST_SKIP() << "not in this kernel";
  ASSERT_EQ(advise(shared(), kPage, kInstall), 0);
  ASSERT_EQ(advise(all(), kAll, kRemove), 0);
  EXPECT_TRUE(zero(shared(), kPage));
  EXPECT_EQ(shared()[kPage], Anonymous::value(kFirst + kPage, 1));
}

TEST_F(Advice, MemoryGrowsWhereItLies) {
  ::munmap(all() + kFirst + kShared, kAll - kFirst - kShared);
  const std::size_t before = kFirst + kShared;
  char* grown = remapped(all(), before, kAll, 0);
  ASSERT_EQ(grown, all());
  EXPECT_TRUE(Anonymous::holds(grown, before, 1));
  EXPECT_TRUE(zero(grown + before, kAll - before));
  shared()[3] = 42;
  EXPECT_TRUE(daemon_sees()) << "still shared";
  EXPECT_EQ(remapped(all(), kAll, 1ul << 46, 0), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Advice, MemoryGrowsElsewhere) {
  Anonymous behind(1);
  char* const moved = remapped(all(), kAll, 2 * kAll, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_TRUE(Anonymous::holds(moved, kAll, 1));
  EXPECT_TRUE(zero(moved + kAll, kAll));
  moved[kFirst + 3] = 42;
  ExtentList found;
  ASSERT_EQ(registry_.prepare(region(moved + kFirst, kShared), found), 0);
  EXPECT_EQ(found.all()[0].handle, extents_.all()[0].handle) << "still shared";
  // And again, into a place of its own choice.
  void* room = ::mmap(nullptr, 8 * kAll, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const again = remapped(moved, 2 * kAll, 4 * kAll, MREMAP_MAYMOVE | MREMAP_FIXED, room);
  ASSERT_EQ(again, room);
  EXPECT_EQ(again[kFirst + 3], 42);
  EXPECT_TRUE(zero(again + kAll, 3 * kAll));
  std::memset(again, 1, 4 * kAll);  // not beyond the end of any file
  char* const shrunk =
      remapped(again, 4 * kAll, kAll, MREMAP_MAYMOVE | MREMAP_FIXED, again + 6 * kAll);
  ASSERT_EQ(shrunk, again + 6 * kAll);
  EXPECT_EQ(shrunk[kAll - 1], 1);
  ::munmap(room, 8 * kAll);
}

TEST_F(Advice, MemoryMovedAsideIsNotInTwoPlaces) {
  char* const moved = remapped(shared(), kShared, kShared, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_TRUE(zero(shared(), kShared));
  EXPECT_EQ(moved[kPage], Anonymous::value(kFirst + kPage, 1));
  shared()[0] = 7;
  EXPECT_EQ(moved[0], Anonymous::value(kFirst, 1));
  ::munmap(moved, kShared);
  EXPECT_EQ(remapped(all(), 0, kShared, MREMAP_MAYMOVE), MAP_FAILED);
}

TEST_F(Advice, RequestsThatAreNoneAreLeftToTheKernel) {
  const int error = 4711;
  errno = error;
  void* result = nullptr;
  EXPECT_FALSE(remap({all() + 1, kAll, 2 * kAll, MREMAP_MAYMOVE, nullptr}, &result));
  EXPECT_FALSE(remap({all(), kAll, 2 * kAll, MREMAP_FIXED, all() + 4 * kAll}, &result));
  EXPECT_FALSE(remap({all(), kAll, 2 * kAll, 64, nullptr}, &result));
  EXPECT_FALSE(remap({all(), kAll, 0, MREMAP_MAYMOVE, nullptr}, &result));
  EXPECT_FALSE(remap({all(), kAll, kPage, 0, nullptr}, &result));
  EXPECT_FALSE(remap({all(), ~std::size_t{0} - kPage, kAll, 1, nullptr}, &result));
  EXPECT_FALSE(remap({all(), kAll, kAll, MREMAP_MAYMOVE | MREMAP_FIXED, all() + kPage}, &result));
  EXPECT_EQ(errno, error);
  ::munmap(all() + kAll - kPage, kPage);
  EXPECT_TRUE(remap({all(), kAll, 2 * kAll, MREMAP_MAYMOVE, nullptr}, &result));
  EXPECT_EQ(result, MAP_FAILED);
  EXPECT_EQ(errno, EFAULT);
}

}  // namespace
}  // namespace softhca::provider
