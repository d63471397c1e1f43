// SPDX-License-Identifier: Apache-2.0

// MeasuredMemory reports waits for a process's memory, but not processor time.
#include "daemon/engine/memory/measured_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {
namespace {

constexpr auto kAccess = std::chrono::milliseconds(2);

/// Memory with slow accesses: they sleep, or use processor time.
class Slow final : public memory::ProcessMemory {
 public:
  Verdict read(std::span<iovec>, std::span<iovec>) override {
    if (sleeps)
      std::this_thread::sleep_for(kAccess);
    else
      for (const Time end = monotonic_time() + kAccess; monotonic_time() < end;) continue;
    return Verdict::kOk;
  }
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override {
    (void)read(local, remote);
    return Verdict::kLocalProtection;
  }
  bool sleeps = true;
};

struct Measured {
  std::vector<Duration> waits;
  std::shared_ptr<Slow> slow = std::make_shared<Slow>();
  Time suspected_until{};
  MeasuredMemory memory{slow, [this](Duration time) { waits.push_back(time); }, suspected_until};
};

TEST(MeasuredMemory, WaitsOfMemoryThatWasSlowLatelyAreTold) {
  Measured m;
  EXPECT_EQ(m.memory.read({}, {}), Verdict::kOk);
  EXPECT_TRUE(m.waits.empty()) << "the first one only makes it suspicious";
  EXPECT_EQ(m.memory.read({}, {}), Verdict::kOk);
  EXPECT_EQ(m.memory.write({}, {}), Verdict::kLocalProtection);
  ASSERT_EQ(m.waits.size(), 2u);
  for (const Duration wait : m.waits) EXPECT_GE(wait, kAccess);
}

TEST(MeasuredMemory, WorkIsNoWait) {
  Measured m;
  m.slow->sleeps = false;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(m.memory.read({}, {}), Verdict::kOk);
  EXPECT_TRUE(m.waits.empty());
}

}  // namespace
}  // namespace softhca::engine
