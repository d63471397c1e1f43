// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/shared_buffer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/emulated.hpp"

namespace softhca::memory {
namespace {

constexpr std::size_t kPage = 4096;

std::uint32_t create(SharedBufferPool& pool, std::size_t bytes) {
  auto created = pool.create(bytes);
  if (!created) throw std::runtime_error(created.error().message);
  return created->handle;
}

Outcome seal(SharedBuffer& buffer) {
  const DescriptorToSeal fd = buffer.to_seal().first;
  return SealedMemory::seal_holes(fd.get());
}

/// Registers and deregisters once.
void use(SharedBufferPool& pool, std::uint32_t handle) { ASSERT_NE(pool.acquire(handle), nullptr); }

TEST(SharedBuffer, IsTheMemoryTheDescriptorNames) {
  SharedBufferPool pool(1 << 20);
  auto created = pool.create(5000);
  ASSERT_TRUE(created);
  struct stat st;
  ASSERT_EQ(::fstat(created->fd, &st), 0);
  EXPECT_EQ(created->inode, st.st_ino);
  EXPECT_EQ(st.st_size, 8192);
  auto* tenant = static_cast<std::byte*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, created->fd, 0));
  ASSERT_NE(tenant, MAP_FAILED);
  const int fd = created->fd;
  const auto buffer = pool.acquire(created->handle);
  ASSERT_NE(buffer, nullptr);
  EXPECT_FALSE(buffer->is_sealed());
  ASSERT_TRUE(seal(*buffer));
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "descriptor kept open";
  EXPECT_TRUE(buffer->is_sealed());
  EXPECT_EQ(buffer->inode(), created->inode);
  buffer->map_present(4000, 200);
  tenant[8191] = std::byte{42};
  EXPECT_EQ(*buffer->at(8191, 1), std::byte{42});
  ::munmap(tenant, 8192);
}

// A page fault of the engine would wait until the hole is made.
TEST(SharedBuffer, HasNoHolesMadeInItOnceItIsRegistered) {
  SharedBufferPool pool(1 << 20);
  auto descriptor = std::make_shared<int>();
  auto created = pool.create(4 * kPage, nullptr, descriptor);
  ASSERT_TRUE(created);
  const int fd = ::dup(created->fd);
  const auto map = [&](int protection) {
    return ::mmap(nullptr, 4 * kPage, protection, MAP_SHARED, fd, 0);
  };
  void* mapped = map(PROT_READ | PROT_WRITE);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto punch = [&] {
    return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage);
  };
  EXPECT_EQ(punch(), 0);
  auto* bytes = static_cast<std::byte*>(mapped);
  bytes[0] = bytes[kPage] = std::byte{7};
  const auto buffer = pool.acquire(created->handle);
  ASSERT_TRUE(seal(*buffer));
  EXPECT_EQ(descriptor.use_count(), 1) << "still accounted for";
  EXPECT_EQ(punch(), -1);
  if (kernel_takes_advice()) {
    EXPECT_EQ(::madvise(mapped, kPage, MADV_REMOVE), -1);
  }
  EXPECT_EQ(map(PROT_READ | PROT_WRITE), MAP_FAILED) << "a new way to write";
  // What is mapped already goes on, holes from before included.
  EXPECT_EQ(*buffer->at(0, 1), std::byte{7});
  bytes[3 * kPage] = std::byte{8};
  EXPECT_EQ(*buffer->at(3 * kPage, 1), std::byte{8});
  ::munmap(mapped, 4 * kPage);
  ::close(fd);
}

TEST(SharedBuffer, OfATenantThatForbidsSealsIsNotTaken) {
  SharedBufferPool pool(1 << 20);
  auto created = pool.create(kPage);
  ASSERT_TRUE(created);
  ASSERT_EQ(::fcntl(created->fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_FALSE(seal(*pool.acquire(created->handle)));
}

/// Whether the page table of this process has the page, from /proc/self/pagemap.
bool in_page_table(const std::byte* page) {
  const int map = ::open("/proc/self/pagemap", O_RDONLY);
  std::uint64_t entry = 0;
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page) / kPage * sizeof entry);
  EXPECT_EQ(::pread(map, &entry, sizeof entry, at), static_cast<ssize_t>(sizeof entry));
  ::close(map);
  return entry >> 63 != 0;
}

TEST(SharedBuffer, WhatTheTenantHasFilledIsMappedAndNothingElseMade) {
  if (!kernel_takes_advice()) GTEST_SKIP() << "madvise(2) does not reach the kernel";
  constexpr std::size_t kPages = 5000;  // more than are looked at together
  SharedBufferPool pool(kPages * kPage);
  auto created = pool.create(kPages * kPage);
  ASSERT_TRUE(created);
  const auto buffer = pool.acquire(created->handle);
  const auto pages = [&] {
    struct stat st;
    EXPECT_EQ(::fstat(created->fd, &st), 0);
    return st.st_blocks * 512 / static_cast<long>(kPage);
  };
  const std::size_t filled[] = {0, 1, 2047, 2048, 3000, kPages - 1};
  for (const std::size_t page : filled)
    ASSERT_EQ(::pwrite(created->fd, "x", 1, static_cast<off_t>(page * kPage + 7)), 1);
  buffer->map_present(10, kPages * kPage - 20);
  EXPECT_EQ(pages(), 6);
  for (const std::size_t page : filled)
    EXPECT_TRUE(in_page_table(buffer->at(page * kPage, kPage))) << page;
  for (const std::size_t page : {2ul, 2046ul, 2049ul, 4998ul})
    EXPECT_FALSE(in_page_table(buffer->at(page * kPage, kPage))) << page;

  // A hole that the tenant makes afterwards reads as zeros.
  ASSERT_EQ(::fallocate(created->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), 0);
  EXPECT_EQ(*buffer->at(7, 1), std::byte{0});
}

TEST(SharedBuffer, EndsItsAccountWithTheMapping) {
  SharedBufferPool pool(1 << 20);
  auto account = std::make_shared<int>();
  auto created = pool.create(kPage, account);
  auto region = pool.acquire(created->handle);
  EXPECT_TRUE(pool.free(created->handle));
  EXPECT_EQ(account.use_count(), 2);
  region.reset();
  EXPECT_EQ(account.use_count(), 1);
}

// The account has the record, which names the memory.
TEST(SharedBuffer, AccountEndsBeforeItsMemory) {
  auto account = std::make_shared<int>();
  const std::weak_ptr<int> known = account;
  unsigned ended = 0;
  {
    SharedBufferPool pool(1 << 20, [&](SealedMemory&&) {
      ++ended;
      EXPECT_TRUE(known.expired());
    });
    ASSERT_TRUE(pool.create(kPage, std::move(account)));
    EXPECT_FALSE(known.expired());
  }
  EXPECT_EQ(ended, 1u);
}

TEST(SharedBuffer, BoundsSurviveAnyNumbers) {
  SharedBufferPool pool(1 << 20);
  const auto buffer = pool.acquire(create(pool, kPage));
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_NE(buffer->at(0, kPage), nullptr);
  EXPECT_NE(buffer->at(kPage, 0), nullptr);
  EXPECT_EQ(buffer->at(0, kPage + 1), nullptr);
  EXPECT_EQ(buffer->at(1, kPage), nullptr);
  EXPECT_EQ(buffer->at(kPage + 1, 0), nullptr);
  EXPECT_EQ(buffer->at(kMax, 1), nullptr);
  EXPECT_EQ(buffer->at(1, kMax), nullptr);
}

TEST(SharedBufferPool, UnknownHandles) {
  SharedBufferPool pool(1 << 20);
  EXPECT_EQ(pool.acquire(0), nullptr);
  EXPECT_EQ(pool.acquire(12345), nullptr);
  EXPECT_FALSE(pool.free(1));
  const std::uint32_t handle = create(pool, 1);
  EXPECT_TRUE(pool.free(handle));
  EXPECT_EQ(pool.acquire(handle), nullptr);
  EXPECT_FALSE(pool.free(handle));
}

TEST(SharedBufferPool, BudgetAndNonsense) {
  SharedBufferPool pool(3 * kPage);
  create(pool, 2 * kPage);
  const auto refused = pool.create(kPage + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  create(pool, kPage);
  EXPECT_EQ(pool.create(1).error().code, ENOMEM);
  EXPECT_EQ(pool.create(~std::size_t{0} - kPage).error().code, ENOMEM);
  EXPECT_EQ(pool.create(~std::size_t{0}).error().code, EINVAL);
  EXPECT_EQ(pool.create(0).error().code, EINVAL);
}

TEST(SharedBufferPool, ABufferLivesOnInItsRegions) {
  SharedBufferPool pool(kPage);
  const std::uint32_t handle = create(pool, kPage);
  const auto region = pool.acquire(handle);
  EXPECT_FALSE(pool.create(1));
  EXPECT_TRUE(pool.free(handle));
  *region->at(0, 1) = std::byte{1};
  EXPECT_TRUE(pool.create(kPage)) << "it counts no more";
}

TEST(SharedBufferPool, ABufferIsNotIdleBeforeItsFirstRegion) {
  SharedBufferPool pool(1 << 20);
  const std::uint32_t handle = create(pool, kPage);
  EXPECT_EQ(pool.idle_count(), 0u);
  use(pool, handle);
  EXPECT_EQ(pool.idle_count(), 1u);
  EXPECT_EQ(pool.idle_bytes(), kPage);
}

TEST(SharedBufferPool, ABufferIsIdleWhenTheLastOfItsRegionsEnds) {
  SharedBufferPool pool(1 << 20);
  const std::uint32_t handle = create(pool, kPage);
  auto first = pool.acquire(handle);
  auto second = pool.acquire(handle);
  auto copy = second;
  first.reset();
  second.reset();
  EXPECT_EQ(pool.idle_count(), 0u);
  copy.reset();
  EXPECT_EQ(pool.idle_count(), 1u);
  EXPECT_TRUE(pool.free(handle));
  EXPECT_EQ(pool.idle_count(), 0u);
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(SharedBufferPool, IdleOnesAreGivenUpTheLongestUnusedFirst) {
  SharedBufferPool pool(1 << 20);
  const std::uint32_t a = create(pool, kPage);
  const std::uint32_t b = create(pool, 2 * kPage);
  const std::uint32_t busy = create(pool, kPage);
  const auto region = pool.acquire(busy);
  use(pool, a);
  use(pool, b);
  use(pool, a);
  EXPECT_EQ(pool.idle_bytes(), 3 * kPage);
  pool.give_up_oldest();
  EXPECT_EQ(pool.idle_bytes(), kPage);
  EXPECT_EQ(pool.acquire(b), nullptr);
  EXPECT_NE(pool.acquire(a), nullptr);
  EXPECT_NE(pool.acquire(busy), nullptr);
}

TEST(SharedBufferPool, IdleOnesMakeRoomForNewOnes) {
  SharedBufferPool pool(4 * kPage);
  const std::uint32_t idle = create(pool, 2 * kPage);
  use(pool, idle);
  const auto region = pool.acquire(create(pool, 2 * kPage));
  EXPECT_FALSE(pool.create(3 * kPage));
  EXPECT_NE(pool.acquire(idle), nullptr) << "it would not have been enough";
  EXPECT_TRUE(pool.create(2 * kPage));
  EXPECT_EQ(pool.acquire(idle), nullptr);
  EXPECT_FALSE(pool.create(1)) << "what regions use stays";
}

TEST(SharedBufferPool, MayEndBeforeTheRegions) {
  std::shared_ptr<SharedBuffer> region;
  {
    SharedBufferPool pool(1 << 20);
    region = pool.acquire(create(pool, kPage));
  }
  *region->at(0, 1) = std::byte{1};
}

}  // namespace
}  // namespace softhca::memory
