// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/memory_proxy.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/engine/fixture/proxy.hpp"
#include "tests/unit/frontend/unix/sockets/lingering.hpp"

namespace softhca::engine {
namespace {

TEST(MemoryProxy, MovesMoreThanOneAccessTakes) {
  Proxy proxy;
  const auto process = proxy.add();
  ASSERT_NE(process, nullptr);
  constexpr std::size_t kBytes = 3 * ProxyArea::kBytes + 5;
  std::vector<std::uint8_t> there(kBytes), here(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) there[i] = memory::TenantProcess::pattern(i);
  ASSERT_EQ(move(*process, false, here.data(), there.data(), kBytes), Verdict::kOk);
  EXPECT_EQ(here, there);
  for (std::uint8_t& byte : here) ++byte;
  ASSERT_EQ(move(*process, true, here.data(), there.data(), kBytes), Verdict::kOk);
  EXPECT_EQ(here, there);
  EXPECT_EQ(proxy.counters.process_accesses.value(), 8u);
  EXPECT_EQ(proxy.counters.late_accesses.value(), 0u);
}

TEST(MemoryProxy, MovesListsOfDifferentShapes) {
  Proxy proxy;
  const auto process = proxy.add();
  ASSERT_NE(process, nullptr);
  constexpr std::size_t kParts = 3 * memory::kMaxEntries + 1;
  std::vector<std::uint16_t> there(kParts), here(kParts);
  std::vector<iovec> remote, local;
  for (std::size_t i = 0; i < kParts; ++i) {
    there[i] = static_cast<std::uint16_t>(i * 257);
    remote.push_back({&there[kParts - 1 - i], sizeof there[i]});
  }
  auto* const bytes = reinterpret_cast<std::byte*>(here.data());
  local = {{bytes, 3}, {bytes + 3, 0}, {bytes + 3, 2 * kParts - 3}};
  ASSERT_EQ(process->read(local, remote), Verdict::kOk);
  for (std::size_t i = 0; i < kParts; ++i) EXPECT_EQ(here[i], there[kParts - 1 - i]);
}

TEST(MemoryProxy, FaultsAreAVerdict) {
  Proxy proxy;
  const auto process = proxy.add();
  ASSERT_NE(process, nullptr);
  std::uint64_t word = 5;
  EXPECT_EQ(move(*process, false, &word, nullptr, sizeof word), Verdict::kLocalProtection);
  EXPECT_EQ(move(*process, true, &word, nullptr, sizeof word), Verdict::kLocalProtection);
  std::uint64_t there = 7;
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk) << "still usable";
  EXPECT_EQ(word, 7u);
  EXPECT_EQ(proxy.counters.late_accesses.value(), 0u);
}

TEST(MemoryProxy, AWaitIsToldHoweverShort) {
  Proxy proxy;
  const auto process = proxy.add();
  std::uint64_t word = 0;
  std::uint64_t there = 7;
  Duration before{};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk);
    EXPECT_GT(proxy.waited, before);
    before = proxy.waited;
  }
}

TEST(MemoryProxy, HoldsWhatItReachesAndNoMore) {
  Proxy proxy;
  std::uint64_t word = 0;
  std::uint64_t there = 7;
  const auto one = proxy.add();
  ASSERT_EQ(move(*one, false, &word, &there, sizeof word), Verdict::kOk);
  const auto before = proxy.descriptors();
  for (int i = 0; i < 100; ++i) {
    const auto process = proxy.add();
    ASSERT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk);
  }
  ASSERT_EQ(move(*one, false, &word, &there, sizeof word), Verdict::kOk)
      << "it has been told of all";
  EXPECT_EQ(proxy.descriptors(), before);
}

TEST(MemoryProxy, OneWhoseProcessHasEndedSaysSo) {
  AccessBounds bounds;
  bounds.start = std::chrono::hours(1);  // it is noticed before
  Proxy proxy(bounds);
  const auto process = proxy.add();
  ASSERT_NE(process, nullptr);
  proxy.kill();
  EXPECT_EQ(proxy.add_error(), EPIPE);
  std::uint64_t word = 0;
  std::uint64_t there = 7;
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kLocalProtection);
  EXPECT_EQ(proxy.counters.late_accesses.value(), 1u);
  EXPECT_EQ(proxy.add_error(), EPIPE) << "not EBUSY, for ever";
}

TEST(MemoryProxy, AnAccessThatDoesNotComeBackCostsItsTenantAlone) {
  AccessBounds bounds;
  bounds.start = std::chrono::milliseconds(5);
  Proxy proxy(bounds), other;
  const auto process = proxy.add();
  const auto others = other.add();
  std::uint64_t word = 3;
  std::uint64_t there = 7;
  proxy.stop();
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kLocalProtection);
  EXPECT_EQ(word, 3u);
  EXPECT_TRUE(proxy.proxy->is_late());
  EXPECT_EQ(proxy.counters.late_accesses.value(), 1u);

  // At once: nothing is asked of the process.
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kLocalProtection);
  EXPECT_EQ(proxy.counters.process_accesses.value(), 1u);
  EXPECT_EQ(proxy.add_error(), EBUSY);
  EXPECT_EQ(move(*others, false, &word, &there, sizeof word), Verdict::kOk);
  EXPECT_EQ(word, 7u);

  proxy.go_on();
  while (proxy.proxy->is_late()) ::usleep(100);
  there = 9;
  while (move(*process, false, &word, &there, sizeof word) != Verdict::kOk) ::usleep(100);
  EXPECT_EQ(word, 9u) << "not what the late access has read";
  EXPECT_EQ(proxy.add_error(), 0);
}

/// 5 ms for an access, an hour for the process to get a processor.
AccessBounds five_ms_of_work() {
  AccessBounds bounds;
  bounds.start = std::chrono::hours(1);
  bounds.longest = std::chrono::milliseconds(5);
  return bounds;
}

/// It polls for a while after an access, so it lacks the processor more often than it sleeps.
TEST(MemoryProxy, ATenantIsNotAtFaultIfTheProcessGetsNoProcessor) {
  Proxy proxy(five_ms_of_work());
  const auto process = proxy.add();
  std::uint64_t word = 0;
  std::uint64_t there = 7;
  ASSERT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk);
  proxy.stop();
  std::thread later([&] {
    ::usleep(50'000);
    proxy.go_on();
  });
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk);
  later.join();
  EXPECT_EQ(proxy.counters.late_accesses.value(), 0u);
}

TEST(MemoryProxy, TakesManyMemoriesAtOnce_FromWhoWaits) {
  Proxy proxy;
  std::vector<std::shared_ptr<memory::ProcessMemory>> all;
  for (int i = 0; i < 300; ++i) {
    const UniqueFd socket = memory::offer(memory::own_memory());
    auto added = MemoryProxy::add(proxy.proxy, socket.get(), std::chrono::minutes(1));
    ASSERT_TRUE(added) << i << ": " << added.error().message;
    all.push_back(std::move(*added));
  }
  std::uint64_t word = 0, there = 7;
  ASSERT_EQ(move(*all.back(), false, &word, &there, sizeof word), Verdict::kOk);
  EXPECT_EQ(word, 7u);
}

TEST(MemoryProxy, WhatItClosesKeepsItsTenantAlone) {
  Proxy proxy(five_ms_of_work());
  const auto process = proxy.add();
  std::uint64_t word = 0;
  std::uint64_t there = 7;
  ASSERT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kOk);
  // A process sends a descriptor with a close that blocks, and ends.
  control::Lingering lingering(1000);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  auto gone = MemoryProxy::add(proxy.proxy, ours.get());
  ASSERT_TRUE(gone);
  ours.reset();
  const std::byte byte{};
  const int fd = lingering.get();
  ASSERT_EQ(send_with_descriptors(theirs.get(), {&byte, 1}, {&fd, 1}), 1);
  lingering.let_go();
  theirs.reset();
  gone->reset();
  EXPECT_EQ(move(*process, false, &word, &there, sizeof word), Verdict::kLocalProtection);
  EXPECT_EQ(proxy.counters.late_accesses.value(), 1u);
  lingering.end();
  while (move(*process, false, &word, &there, sizeof word) != Verdict::kOk) ::usleep(1000);
}

TEST(MemoryProxy, WhoKeepsItWaitingAgainAndAgainHasNoMoreTime) {
  AccessBounds bounds;
  bounds.usual = std::chrono::microseconds(1);
  bounds.longest = std::chrono::hours(1);  // the allowance is what counts
  bounds.burst = std::chrono::nanoseconds(1);
  bounds.share = 1e-9;
  Proxy proxy(bounds);
  const auto process = proxy.add();
  std::vector<std::byte> there(ProxyArea::kBytes), here(there.size());
  // The address space is locked most of the time.
  constexpr std::size_t kBytes = 256 << 20;
  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ::madvise(pages, kBytes, MADV_NOHUGEPAGE);
  const volatile std::byte* const at = static_cast<const std::byte*>(pages);
  for (std::size_t i = 0; i < kBytes; i += 4096) static_cast<void>(at[i]);
  std::atomic<bool> over{false};
  std::thread locks([&] {
    while (!over)
      for (const int protection : {PROT_READ, PROT_READ | PROT_WRITE})
        ::mprotect(pages, kBytes, protection);
  });
  while (proxy.counters.late_accesses.value() == 0)
    (void)move(*process, false, here.data(), there.data(), here.size());
  over = true;
  locks.join();
  ::munmap(pages, kBytes);
}

}  // namespace
}  // namespace softhca::engine
