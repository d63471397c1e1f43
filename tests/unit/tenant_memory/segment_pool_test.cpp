// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/segment_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "tests/emulated.hpp"

namespace softhca::shm {
namespace {

constexpr std::size_t kPlenty = 64 << 20;

bool all_zero(const std::byte* at, std::size_t bytes) {
  return std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0}; });
}

SegmentPool::Allocation take(SegmentPool& pool, std::size_t bytes) {
  auto got = pool.allocate(bytes);
  if (!got) throw std::runtime_error(got.error().message);
  return *got;
}

/// Bytes of the segment that was made for the ring; 0: it lies in one that was there.
std::size_t new_segment_bytes(const SegmentPool::Allocation& ring) {
  struct stat s {};
  if (!ring.new_segment || ::fstat(ring.fd, &s) != 0) return 0;
  return static_cast<std::size_t>(s.st_size);
}

TEST(SharedSegment, IsSealedAgainstResizing) {
  auto segment = SharedSegment::create("test", 5000);
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->bytes(), 8192u);
  EXPECT_NE(segment->inode(), 0u);
  EXPECT_EQ(::fcntl(segment->fd(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_EQ(::fcntl(segment->fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(::ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(::ftruncate(segment->fd(), 1 << 20), 0);
}

TEST(SharedSegment, MappingOutlivesItsDescriptor) {
  auto segment = SharedSegment::create("test", 4096);
  ASSERT_TRUE(segment);
  segment->take_fd();
  EXPECT_EQ(segment->fd(), -1);
  segment->base()[4095] = std::byte{1};
  EXPECT_EQ(segment->base()[4095], std::byte{1});
}

TEST(SharedSegment, RefusesSizesThatAreNone) {
  EXPECT_EQ(SharedSegment::create("test", 0).error().code, EINVAL);
  EXPECT_EQ(SharedSegment::create("test", ~std::size_t{0}).error().code, EINVAL);
}

TEST(SharedSegment, ClearZeroesExactlyTheRange) {
  auto segment = SharedSegment::create("test", 4 * 4096);
  ASSERT_TRUE(segment);
  std::byte* base = segment->base();
  const std::pair<std::size_t, std::size_t> ranges[] = {
      {0, 16384}, {100, 200}, {100, 8192}, {4096, 4096}, {4000, 200}, {1, 16382}, {0, 0}};
  for (const bool sealed : {false, true}) {
    if (sealed) {
      ASSERT_TRUE(SharedSegment::seal_holes(segment->fd()));
    }
    for (const auto& [offset, length] : ranges) {
      std::memset(base, 0xee, 16384);
      segment->clear(offset, length);
      EXPECT_TRUE(all_zero(base + offset, length)) << offset;
      EXPECT_EQ(std::count(base, base + 16384, std::byte{0xee}),
                static_cast<std::ptrdiff_t>(16384 - length));
    }
  }
}

TEST(SharedSegment, WhatTheDaemonHasTouchedIsNotSwapped) {
  if (!kernel_takes_advice()) GTEST_SKIP() << "/proc/self/smaps is the emulator's";
  auto segment = SharedSegment::create("softhca-locked", 2 * 4096);
  ASSERT_TRUE(segment);
  std::ifstream maps("/proc/self/smaps");
  bool found = false, locked = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("softhca-locked") != std::string::npos) found = true;
    if (!found || !line.starts_with("VmFlags:")) continue;
    locked = (line + ' ').find(" lo ") != std::string::npos;
    break;
  }
  ASSERT_TRUE(found);
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (limit.rlim_cur < 2 * 4096 && !locked) GTEST_SKIP() << "no locked memory is allowed here";
  EXPECT_TRUE(locked);
}

TEST(SegmentPool, PiecesAreAlignedDisjointAndInsideTheirSegment) {
  SegmentPool pool(kPlenty);
  const auto a = take(pool, 100);
  const auto b = take(pool, 64);
  EXPECT_EQ(a.location.bytes, 100u);
  EXPECT_EQ(a.location.segment, b.location.segment);
  EXPECT_EQ(b.location.offset, a.location.offset + 128);
  EXPECT_EQ(b.base, a.base + 128);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.base) % 64, 0u);
}

TEST(SegmentPool, ASegmentIsNewUntilAnnounced) {
  SegmentPool pool(kPlenty);
  const auto first = take(pool, 64);
  EXPECT_TRUE(first.new_segment);
  EXPECT_GE(first.fd, 0);
  const auto again = take(pool, 64);
  EXPECT_TRUE(again.new_segment) << "the first reply may not have gone out";
  EXPECT_EQ(again.fd, first.fd);
  pool.announced(first.location.segment);
  const auto later = take(pool, 64);
  EXPECT_FALSE(later.new_segment);
  EXPECT_EQ(later.fd, -1);
}

Outcome seal(SegmentPool& pool) {
  for (const DescriptorToSeal& fd : pool.to_seal())
    if (const auto sealed = SharedSegment::seal_holes(fd.get()); !sealed) return sealed;
  return {};
}

bool punch(int fd) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
}

TEST(SegmentPool, WhatIsAnnouncedIsSealedAgainstHoles) {
  SegmentPool pool(kPlenty);
  const auto ring = take(pool, 64);
  const int theirs = ::dup(ring.fd);
  ASSERT_TRUE(seal(pool));
  EXPECT_TRUE(punch(theirs)) << "not announced: the tenant has yet to map it";
  pool.announced(ring.location.segment);
  EXPECT_TRUE(punch(theirs)) << "as before";
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
  ASSERT_NE(mapped, MAP_FAILED);

  ASSERT_TRUE(seal(pool));
  EXPECT_EQ(::fcntl(ring.fd, F_GETFD), -1) << "descriptor kept open";
  EXPECT_FALSE(punch(theirs));
  if (kernel_takes_advice()) {
    EXPECT_NE(::madvise(mapped, 4096, MADV_REMOVE), 0);
  }
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0), MAP_FAILED);
  std::memset(mapped, 7, 64);  // what is mapped stays writable
  EXPECT_EQ(ring.base[63], std::byte{7});
  ASSERT_TRUE(seal(pool)) << "again";
  ::munmap(mapped, 4096);
  ::close(theirs);
}

/// However many entries a queue has, it takes the pages that are written to.
TEST(SegmentPool, ALargeRingHasNoPagesYet) {
  SegmentPool pool(kPlenty);
  const auto ring = take(pool, SegmentPool::kLargestSegment);
  struct stat s {};
  ASSERT_EQ(::fstat(ring.fd, &s), 0);
  EXPECT_EQ(s.st_blocks, 0);
}

/// A tenant that could not map a segment gives its ring back, and cannot map it later.
TEST(SegmentPool, ASegmentGivenBackAsItIsSealedIsNotUsedAgain) {
  SegmentPool pool(kPlenty);
  const auto first = take(pool, 64);
  pool.announced(first.location.segment);
  ASSERT_TRUE(seal(pool));
  pool.release(first.location);
  EXPECT_EQ(pool.idle_count(), 0u);
  const auto second = take(pool, 64);
  EXPECT_TRUE(second.new_segment);

  pool.announced(second.location.segment);
  ASSERT_TRUE(seal(pool));
  ASSERT_TRUE(seal(pool));
  pool.release(second.location);
  EXPECT_EQ(pool.idle_count(), 1u) << "it has been used";
  EXPECT_FALSE(take(pool, 64).new_segment);
}

/// For a ring that is in use before the tenant's next request.
TEST(SegmentPool, RoomIsSealedWhenItsSegmentWasAnnounced) {
  SegmentPool pool(kPlenty);
  EXPECT_FALSE(pool.has_sealed_room(64));
  const auto first = take(pool, 64);
  EXPECT_TRUE(pool.has_room(64));
  EXPECT_FALSE(pool.has_sealed_room(64)) << "the reply may not have gone out";
  pool.announced(first.location.segment);
  ASSERT_TRUE(seal(pool));
  EXPECT_TRUE(pool.has_sealed_room(SegmentPool::kFirstSegment - 64));
  EXPECT_FALSE(pool.has_sealed_room(SegmentPool::kFirstSegment));

  const auto reserved = take(pool, SegmentPool::kFirstSegment);
  pool.announced(reserved.location.segment);
  pool.release(reserved.location);
  ASSERT_TRUE(seal(pool));
  EXPECT_TRUE(pool.has_sealed_room(SegmentPool::kFirstSegment));
  const auto ring = take(pool, SegmentPool::kFirstSegment);
  EXPECT_EQ(ring.location.segment, reserved.location.segment);

  // One that the tenant does not ask for again may not be mapped.
  const auto unused = take(pool, 2 * SegmentPool::kFirstSegment);
  pool.announced(unused.location.segment);
  pool.release(unused.location);
  ASSERT_TRUE(seal(pool));
  ASSERT_TRUE(seal(pool));
  EXPECT_EQ(pool.idle_count(), 0u);
}

TEST(SegmentPool, ATenantThatForbidsSealsIsFoundOut) {
  SegmentPool pool(kPlenty);
  const auto ring = take(pool, 64);
  ASSERT_EQ(::fcntl(ring.fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
  pool.announced(ring.location.segment);
  EXPECT_EQ(seal(pool).error().code, EPERM);
}

TEST(SegmentPool, AnotherSegmentOfTheNumberIsSealedInItsTurn) {
  SegmentPool pool(kPlenty);
  const auto gone = take(pool, SegmentPool::kLargestSegment);
  pool.announced(gone.location.segment);
  pool.release(gone.location);
  pool.give_up_idle();
  const auto ring = take(pool, 64);
  ASSERT_EQ(ring.location.segment, gone.location.segment);
  ASSERT_TRUE(seal(pool));
  EXPECT_TRUE(punch(ring.fd)) << "it is not announced";
}

TEST(SegmentPool, SegmentsGrowAndBigRingsGetTheirOwn) {
  SegmentPool pool(kPlenty);
  EXPECT_EQ(new_segment_bytes(take(pool, 64)), SegmentPool::kFirstSegment);
  EXPECT_EQ(new_segment_bytes(take(pool, SegmentPool::kFirstSegment)),
            2 * SegmentPool::kFirstSegment);
  const auto big = take(pool, SegmentPool::kLargestSegment + 1);
  EXPECT_EQ(big.location.offset, 0u);
  EXPECT_EQ(new_segment_bytes(big), SegmentPool::kLargestSegment + 4096);
}

TEST(SegmentPool, BudgetIsUsedToTheLastPageAndNotBeyond) {
  SegmentPool pool(SegmentPool::kFirstSegment + 8192);
  take(pool, SegmentPool::kFirstSegment);
  const auto refused = pool.allocate(8193);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_NE(refused.error().message.find("8192"), std::string::npos) << refused.error().message;
  take(pool, 8192);
  EXPECT_FALSE(pool.allocate(1));
}

TEST(SegmentPool, RefusesSizesThatAreNone) {
  SegmentPool pool(kPlenty);
  EXPECT_EQ(pool.allocate(0).error().code, EINVAL);
  EXPECT_EQ(pool.allocate(std::size_t{1} << 32).error().code, EINVAL);
  EXPECT_EQ(pool.allocate(~std::size_t{0}).error().code, EINVAL);
}

TEST(SegmentPool, ReusedMemoryIsZero) {
  SegmentPool pool(kPlenty);
  const auto first = take(pool, 3 * 4096 + 64);
  std::memset(first.base, 0xff, first.location.bytes);
  pool.release(first.location);
  const auto second = take(pool, 3 * 4096 + 64);
  ASSERT_EQ(second.base, first.base);
  EXPECT_TRUE(all_zero(second.base, second.location.bytes));
}

TEST(SegmentPool, NeighboursAreNotTouchedByReleases) {
  SegmentPool pool(kPlenty);
  const auto a = take(pool, 64);
  const auto b = take(pool, 100);
  const auto c = take(pool, 64);
  std::memset(a.base, 1, 64);
  std::memset(c.base, 1, 64);
  pool.release(b.location);
  EXPECT_EQ(a.base[63], std::byte{1});
  EXPECT_EQ(c.base[0], std::byte{1});
}

TEST(SegmentPool, FreedNeighboursGrowTogetherInAnyOrder) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    SegmentPool pool(SegmentPool::kFirstSegment);
    std::vector<abi::RingLocation> pieces;
    for (int i = 0; i < 4; ++i)
      pieces.push_back(take(pool, SegmentPool::kFirstSegment / 4).location);
    ASSERT_FALSE(pool.allocate(64));
    for (const int i : order) pool.release(pieces[i]);
    EXPECT_TRUE(pool.allocate(SegmentPool::kFirstSegment));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SegmentPool, RandomUseNeverOverlapsAndNeverLeaks) {
  SegmentPool pool(kPlenty);
  std::mt19937 random(1);
  std::vector<SegmentPool::Allocation> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.size() < 40 || random() % 2 == 0) {
      live.push_back(take(pool, 1 + random() % 20000));
      const auto& got = live.back();
      ASSERT_TRUE(all_zero(got.base, got.location.bytes));
      std::memset(got.base, 0x5a, got.location.bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto gone = live.back();
      live.pop_back();
      ASSERT_EQ(std::count(gone.base, gone.base + gone.location.bytes, std::byte{0x5a}),
                static_cast<std::ptrdiff_t>(gone.location.bytes));
      pool.release(gone.location);
    }
  }
  for (const auto& piece : live) pool.release(piece.location);
  const auto again = take(pool, SegmentPool::kFirstSegment);
  pool.announced(again.location.segment);
  pool.release(again.location);
  for (int i = 0; i < 8; ++i) {
    const auto ring = take(pool, SegmentPool::kFirstSegment);
    EXPECT_FALSE(ring.new_segment);
    pool.release(ring.location);
  }
}

TEST(SegmentPool, TellsWhetherASegmentWillBeMade) {
  SegmentPool pool(kPlenty);
  EXPECT_FALSE(pool.has_room(1));
  const auto ring = take(pool, SegmentPool::kFirstSegment - 64);
  EXPECT_TRUE(pool.has_room(64));
  EXPECT_FALSE(pool.has_room(65));
  pool.release(ring.location);
  EXPECT_TRUE(pool.has_room(SegmentPool::kFirstSegment));
}

TEST(SegmentPool, OneSegmentWithoutRingsIsKept) {
  SegmentPool pool(kPlenty);
  std::vector<SegmentPool::Allocation> rings;
  std::vector<std::weak_ptr<void>> accounts;
  for (int i = 0; i < 3; ++i) {
    const auto account = std::make_shared<int>();
    accounts.push_back(account);
    rings.push_back(*pool.allocate(SegmentPool::kLargestSegment, account));
    pool.announced(rings.back().location.segment);
  }
  EXPECT_EQ(pool.idle_count(), 0u);
  for (const auto& ring : rings) pool.release(ring.location);
  EXPECT_EQ(pool.idle_count(), 1u);
  EXPECT_TRUE(accounts[0].expired() && accounts[1].expired());
  EXPECT_FALSE(accounts[2].expired());
  EXPECT_FALSE(take(pool, 64).new_segment) << "a kept segment is used";
  EXPECT_EQ(pool.idle_count(), 0u);
  pool.give_up_idle();
  EXPECT_EQ(pool.idle_count(), 0u);
  EXPECT_FALSE(accounts[2].expired()) << "it is in use";
}

TEST(SegmentPool, NumbersOfSegmentsGivenUpAreTakenAgainAndAnnounced) {
  SegmentPool pool(kPlenty);
  const auto kept = take(pool, 64);
  pool.announced(kept.location.segment);
  for (int i = 0; i < 100; ++i) {
    const auto account = std::make_shared<int>();
    const auto ring = *pool.allocate(SegmentPool::kLargestSegment, account);
    ASSERT_EQ(ring.location.segment, 1u);
    ASSERT_TRUE(ring.new_segment);
    ASSERT_TRUE(all_zero(ring.base, 4096));
    std::memset(ring.base, 1, 4096);
    pool.announced(1);
    pool.release(ring.location);
    ASSERT_EQ(account.use_count(), 2);
    pool.give_up_idle();
    ASSERT_EQ(account.use_count(), 1);
  }
}

// The account has the record, which names the memory.
TEST(SegmentPool, AccountEndsBeforeItsMemory) {
  auto account = std::make_shared<int>();
  const std::weak_ptr<int> known = account;
  unsigned ended = 0;
  {
    SegmentPool pool(kPlenty, [&](SealedMemory&&) {
      ++ended;
      EXPECT_TRUE(known.expired());
    });
    ASSERT_TRUE(pool.allocate(4096, std::move(account)));
    EXPECT_FALSE(known.expired());
  }
  EXPECT_EQ(ended, 1u);
}

}  // namespace
}  // namespace softhca::shm
