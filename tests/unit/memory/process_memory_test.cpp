#include "daemon/memory/process_memory.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "tests/unit/memory/tenant_process.hpp"

namespace softhca::memory {
namespace {

iovec vec(void* at, std::size_t bytes) { return {at, bytes}; }
iovec vec(std::uint64_t addr, std::size_t bytes) { return {reinterpret_cast<void*>(addr), bytes}; }

class ProcessMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 16384;

  ProcessMemoryTest() : tenant_(kBytes), memory_(*ProcessMemory::open(tenant_.pid())) {}

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
  EXPECT_FALSE(memory_->gone());
  EXPECT_EQ(read(tenant_.addr() + kBytes - 64, bytes, 64), Verdict::kOk) << "still usable";
}

TEST_F(ProcessMemoryTest, ADeadProcessIsAVerdictAndStaysDead) {
  pollfd watch{memory_->pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watch, 1, 0), 0);
  tenant_.end();
  EXPECT_EQ(::poll(&watch, 1, 0), 1);
  std::uint8_t byte = 0;
  EXPECT_EQ(read(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
  EXPECT_TRUE(memory_->gone());
  EXPECT_EQ(write(tenant_.addr(), &byte, 1), Verdict::kLocalProtection);
}

TEST(ProcessMemory, NoSuchProcess) {
  TenantProcess tenant(4096);
  const pid_t pid = tenant.pid();
  tenant.end();
  const auto opened = ProcessMemory::open(pid);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ESRCH);
}

}  // namespace
}  // namespace softhca::memory
