// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/offered_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/emulated.hpp"
#include "tests/unit/tenant_memory/tenant_process.hpp"

namespace softhca::memory {
namespace {

iovec vec(void* at, std::size_t bytes) { return {at, bytes}; }
iovec vec(std::uint64_t addr, std::size_t bytes) { return {reinterpret_cast<void*>(addr), bytes}; }

class OfferedMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 16384;

  OfferedMemoryTest() : tenant_(kBytes), memory_(tenant_.memory()) {}

  Verdict read(std::uint64_t addr, void* into, std::size_t bytes) {
    iovec local = vec(into, bytes);
    iovec remote = vec(addr, bytes);
    return memory_->read({&local, 1}, {&remote, 1});
  }
  Verdict write(std::uint64_t addr, void* from, std::size_t bytes) {
    iovec local = vec(from, bytes);
    iovec remote = vec(addr, bytes);
    return memory_->write({&local, 1}, {&remote, 1});
  }

  TenantProcess tenant_;
  std::shared_ptr<ProcessMemory> memory_;
};

TEST_F(OfferedMemoryTest, ReadsAndWrites) {
  std::vector<std::uint8_t> bytes(kBytes);
  ASSERT_EQ(read(tenant_.addr(), bytes.data(), kBytes), Verdict::kOk);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(bytes[i], TenantProcess::pattern(i));
  std::uint8_t text[] = "hello";
  ASSERT_EQ(write(tenant_.addr() + 4094, text, 5), Verdict::kOk);
  std::uint8_t back[7] = {};
  ASSERT_EQ(read(tenant_.addr() + 4093, back, 7), Verdict::kOk);
  EXPECT_EQ(back[0], TenantProcess::pattern(4093));
  EXPECT_EQ(std::memcmp(back + 1, "hello", 5), 0);
  EXPECT_EQ(back[6], TenantProcess::pattern(4099));
}

TEST_F(OfferedMemoryTest, VectorsOfDifferentShapes) {
  std::uint8_t a[3], b[10], c[7];
  iovec local[] = {vec(a, 3), vec(b, 0), vec(b, 10), vec(c, 7)};
  iovec remote[] = {vec(tenant_.addr() + 100, 15), vec(tenant_.addr(), 0),
                    vec(tenant_.addr() + 5000, 5)};
  ASSERT_EQ(memory_->read(local, remote), Verdict::kOk);
  EXPECT_EQ(a[0], TenantProcess::pattern(100));
  EXPECT_EQ(b[9], TenantProcess::pattern(112));
  EXPECT_EQ(c[1], TenantProcess::pattern(114));
  EXPECT_EQ(c[2], TenantProcess::pattern(5000));
  EXPECT_EQ(c[6], TenantProcess::pattern(5004));
}

TEST_F(OfferedMemoryTest, NothingToMoveIsDone) {
  EXPECT_EQ(memory_->read({}, {}), Verdict::kOk);
  EXPECT_EQ(read(0, nullptr, 0), Verdict::kOk);
}

TEST_F(OfferedMemoryTest, FaultsAreAVerdict) {
  std::uint8_t bytes[64];
  EXPECT_EQ(read(tenant_.addr() + kBytes, bytes, 64), Verdict::kLocalProtection);
  EXPECT_EQ(write(tenant_.addr() + kBytes, bytes, 64), Verdict::kLocalProtection);
  EXPECT_EQ(read(tenant_.addr() + kBytes - 32, bytes, 64), Verdict::kLocalProtection)
      << "the second half is not mapped";
  EXPECT_EQ(read(0, bytes, 8), Verdict::kLocalProtection);
  EXPECT_EQ(read(~std::uint64_t{0} - 3, bytes, 8), Verdict::kLocalProtection);
  EXPECT_EQ(read(0xffff'8000'0000'0000, bytes, 8), Verdict::kLocalProtection);
  EXPECT_EQ(read(tenant_.addr() + kBytes - 64, bytes, 64), Verdict::kOk) << "still usable";
}

TEST_F(OfferedMemoryTest, ADeadProcessIsAVerdict) {
  tenant_.end();
  std::uint8_t byte = 0;
  EXPECT_EQ(read(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
  EXPECT_EQ(write(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
}

Verdict read_one(ProcessMemory& memory, std::uint64_t addr) {
  std::uint8_t byte = 0;
  iovec local = vec(&byte, 1);
  iovec remote = vec(addr, 1);
  return memory.read({&local, 1}, {&remote, 1});
}

TEST(OfferedMemory, KeptSocket_MemoryWasReached_NextOneReachesItToo) {
  const TenantProcess tenant(4096);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd kept(::dup(ends[0]));
  {
    OfferedMemory memory{UniqueFd(ends[0])};
    const UniqueFd theirs(ends[1]);
    const std::byte byte{};
    const int fd = tenant.opened().get();
    ASSERT_EQ(send_with_descriptors(theirs.get(), {&byte, 1}, {&fd, 1}), 1);
    EXPECT_EQ(read_one(memory, tenant.addr()), Verdict::kOk);
  }
  for (int i = 0; i < 2; ++i) {
    OfferedMemory next{UniqueFd(::dup(kept.get()))};
    EXPECT_EQ(read_one(next, tenant.addr()), Verdict::kOk);
  }
}

TEST(OfferedMemory, WhatIsNotYetPassedIsOutOfReach) {
  const TenantProcess tenant(4096);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  OfferedMemory memory{UniqueFd(ends[0])};
  const UniqueFd theirs(ends[1]);
  EXPECT_EQ(read_one(memory, tenant.addr()), Verdict::kLocalProtection);
  const std::byte byte{};
  const int fd = tenant.opened().get();
  ASSERT_EQ(send_with_descriptors(theirs.get(), {&byte, 1}, {&fd, 1}), 1);
  EXPECT_EQ(read_one(memory, tenant.addr()), Verdict::kOk);
}

TEST(OfferedMemory, NothingElseIsTakenForIt) {
  const TenantProcess tenant(4096);
  const UniqueFd file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const UniqueFd folder(::open("/proc/self", O_RDONLY | O_CLOEXEC));
  for (const UniqueFd* other : {&file, &status, &folder}) {
    ASSERT_TRUE(*other);
    const auto memory = offered(*other);
    EXPECT_EQ(read_one(*memory, tenant.addr()), Verdict::kLocalProtection);
    EXPECT_EQ(read_one(*memory, 0), Verdict::kLocalProtection);
  }
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  OfferedMemory memory{UniqueFd(ends[0])};
  ASSERT_EQ(::send(ends[1], "x", 1, 0), 1) << "a record without a descriptor";
  EXPECT_EQ(read_one(memory, tenant.addr()), Verdict::kLocalProtection);
  ::close(ends[1]);
  EXPECT_EQ(read_one(memory, tenant.addr()), Verdict::kLocalProtection);
}

/// An address that is mapped there now.
std::uint64_t mapped_address(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::uint64_t address = 0;
  maps >> std::hex >> address;
  return address;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(OfferedMemory, WhatComesBesideIsClosed) {
  if (!kernel_closes_what_does_not_fit()) GTEST_SKIP() << "the emulator keeps descriptors";
  const TenantProcess tenant(4096);
  const std::ptrdiff_t before = open_descriptors();
  for (const std::size_t bytes : {0u, 1u}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    OfferedMemory memory{UniqueFd(ends[0])};
    const UniqueFd theirs(ends[1]);
    const std::byte byte{};
    const int fds[] = {tenant.opened().get(), tenant.opened().get()};
    ASSERT_EQ(send_with_descriptors(theirs.get(), {&byte, bytes}, fds),
              static_cast<ssize_t>(bytes));
    read_one(memory, tenant.addr());
    EXPECT_LE(open_descriptors(), before + 2) << "theirs, and the memory";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(OfferedMemory, WhatAProcessExecutesLaterIsOutOfReach) {
  int go[2];
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::byte byte{};
    const int fd = own_memory().release();
    send_with_descriptors(ends[1], {&byte, 1}, {&fd, 1});
    char told;
    if (::read(go[0], &told, 1) != 1) ::_exit(1);
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
    ::_exit(1);
  }
  const UniqueFd theirs(ends[1]), told(go[0]), tell(go[1]);
  pollfd sent{ends[0], POLLIN, 0};
  ASSERT_EQ(::poll(&sent, 1, 60'000), 1);
  OfferedMemory memory{UniqueFd(ends[0])};
  EXPECT_EQ(read_one(memory, mapped_address(child)), Verdict::kOk);
  ASSERT_EQ(::write(tell.get(), "g", 1), 1);
  std::string now;
  while (now != "sleep") {
    std::ifstream name("/proc/" + std::to_string(child) + "/comm");
    ASSERT_TRUE(name >> now);
  }
  EXPECT_EQ(read_one(memory, mapped_address(child)), Verdict::kLocalProtection);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace softhca::memory
