#include "daemon/memory/process_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/memory/tenant_process.hpp"

namespace softhca::memory {
namespace {

iovec vec(void* at, std::size_t bytes) { return {at, bytes}; }
iovec vec(std::uint64_t addr, std::size_t bytes) { return {reinterpret_cast<void*>(addr), bytes}; }

class ProcessMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 16384;

  ProcessMemoryTest() : tenant_(kBytes), memory_(tenant_.memory()) {}

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

TEST_F(ProcessMemoryTest, ReadsAndWrites) {
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

TEST_F(ProcessMemoryTest, VectorsOfDifferentShapes) {
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

TEST_F(ProcessMemoryTest, NothingToMoveIsDone) {
  EXPECT_EQ(memory_->read({}, {}), Verdict::kOk);
  EXPECT_EQ(read(0, nullptr, 0), Verdict::kOk);
}

TEST_F(ProcessMemoryTest, FaultsAreAVerdict) {
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

TEST_F(ProcessMemoryTest, ADeadProcessIsAVerdict) {
  tenant_.end();
  std::uint8_t byte = 0;
  EXPECT_EQ(read(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
  EXPECT_EQ(write(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
}

TEST(ProcessMemory, NoSuchProcess) {
  TenantProcess tenant(4096);
  const pid_t pid = tenant.pid();
  tenant.end();
  const auto opened = ProcessMemory::open(pid, ::getuid(), tenant.pidfd());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ESRCH);
}

TEST(ProcessMemory, OfAnotherUser) {
  const TenantProcess tenant(4096);
  const auto opened = ProcessMemory::open(tenant.pid(), ::getuid() + 1, tenant.pidfd());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EPERM);
}

TEST(ProcessMemory, OfAnotherProcessUnderItsNumber) {
  const TenantProcess tenant(4096);
  TenantProcess before(4096);
  before.end();
  const auto opened = ProcessMemory::open(tenant.pid(), ::getuid(), before.pidfd());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ESRCH);
}

/// A child that does as told, then goes on living; started when it has closed its end of a pipe.
class Child {
 public:
  template <class F>
  explicit Child(F&& act) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    int go[2];
    if (::pipe2(go, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      char byte;
      if (::read(go[0], &byte, 1) != 1) ::_exit(1);
      act();
      ::close(ends[1]);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    ::close(go[0]);
    done_ = UniqueFd(ends[0]);
    go_ = UniqueFd(go[1]);
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void act() {
    char byte = 0;
    EXPECT_EQ(::write(go_.get(), "g", 1), 1);
    EXPECT_EQ(::read(done_.get(), &byte, 1), 0);
  }
  auto open(uid_t uid) const { return ProcessMemory::open(pid_, uid, pidfd_.get()); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd done_;
  UniqueFd go_;
  UniqueFd pidfd_;
};

/// An address that is mapped there now.
std::uint64_t mapped_address(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::uint64_t address = 0;
  maps >> std::hex >> address;
  return address;
}

TEST(ProcessMemory, WhatAProcessExecutesLaterIsOutOfReach) {
  Child child([] { ::execl("/bin/sleep", "sleep", "1000", nullptr); });
  const auto memory = child.open(::getuid());
  ASSERT_TRUE(memory);
  const auto reads = [&](std::uint64_t at) {
    std::uint8_t byte = 0;
    iovec local = vec(&byte, 1);
    iovec remote = vec(at, 1);
    return (*memory)->read({&local, 1}, {&remote, 1}) == Verdict::kOk;
  };
  EXPECT_TRUE(reads(mapped_address(child.pid())));
  child.act();
  std::ifstream name("/proc/" + std::to_string(child.pid()) + "/comm");
  std::string now;
  name >> now;
  ASSERT_EQ(now, "sleep");
  EXPECT_FALSE(reads(mapped_address(child.pid())));
  EXPECT_TRUE(child.open(::getuid()));
}

TEST(ProcessMemory, OfAProgramThatHasOrHadMoreRights) {
  constexpr uid_t kNobody = 65534;
  Child child([] {
    // As one that gives up its rights: users all alike, its memory still not its user's.
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    ::prctl(PR_SET_DUMPABLE, 0);
  });
  EXPECT_TRUE(child.open(::getuid()));
  child.act();
  const auto opened = child.open(::geteuid() == 0 ? kNobody : ::getuid());
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().code == EPERM || opened.error().code == EACCES);
}

}  // namespace
}  // namespace softhca::memory
