// Whom the time of the engine went to, without an engine.
#include "daemon/engine/engine_time.hpp"

#include <gtest/gtest.h>

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class TimeOfTenants : public ::testing::Test {
 protected:
  /// Work for a tenant, of so many cost units.
  void work(Tenant& tenant, std::uint64_t cost) {
    cpu.add(cost);
    tenant.counters.engine_cost.add(cost);
  }
  static std::uint64_t nanoseconds_of(const Tenant& tenant) {
    return tenant.counters.engine_ns.value();
  }

  StepClock clock;
  CpuScheduler cpu{clock, 8, 2, 2};
  Tenant a, b;
  std::vector<Tenant*> tenants{&a, &b};
  EngineTime time{cpu, tenants};
};

TEST_F(TimeOfTenants, BusyTimeIsDividedByWhatTheirWorkCounts) {
  work(a, 6'000'000);
  work(b, 2'000'000);
  time.add(milliseconds(1));
  EXPECT_EQ(nanoseconds_of(a), 750'000u);
  EXPECT_EQ(nanoseconds_of(b), 250'000u);
}

TEST_F(TimeOfTenants, ItIsDividedAWindowAtATime) {
  work(a, 8'000'000);
  time.add(microseconds(999));
  EXPECT_EQ(nanoseconds_of(a), 0u);
  time.add(microseconds(1));
  EXPECT_EQ(nanoseconds_of(a), 1'000'000u);
  time.add(milliseconds(1));
  EXPECT_EQ(nanoseconds_of(a), 1'000'000u) << "nothing has been done since";
}

TEST_F(TimeOfTenants, EachWindowIsDividedByItsOwnWork) {
  work(a, 8'000'000);
  time.add(milliseconds(1));
  work(b, 4'000'000);
  time.add(milliseconds(2));
  EXPECT_EQ(nanoseconds_of(a), 1'000'000u);
  EXPECT_EQ(nanoseconds_of(b), 2'000'000u);
}

TEST_F(TimeOfTenants, WhatIsDoneForNobodyIsPaidByNobody) {
  work(a, 2'000'000);
  cpu.add(6'000'000);
  time.add(milliseconds(1));
  EXPECT_EQ(nanoseconds_of(a), 250'000u);
}

TEST_F(TimeOfTenants, CostIsConvertedAsSuchWorkTookLately) {
  EXPECT_EQ(time.nanoseconds(1000), 125u) << "until more is known";
  cpu.add(4'000'000);
  time.add(milliseconds(1));  // a quarter of a nanosecond each
  const std::uint64_t once = time.nanoseconds(1000);
  EXPECT_GT(once, 125u);
  EXPECT_LT(once, 140u) << "one window changes little";
  for (int i = 0; i < 200; ++i) {
    cpu.add(4'000'000);
    time.add(milliseconds(1));
  }
  EXPECT_NEAR(static_cast<double>(time.nanoseconds(1000)), 250, 2);
}

TEST_F(TimeOfTenants, AStepWithoutAProcessorCountsForItsWork) {
  for (int i = 0; i < 1000; ++i) {
    work(a, 8000);
    time.add(milliseconds(5));
  }
  EXPECT_EQ(time.nanoseconds(1000), 125u);
  EXPECT_EQ(nanoseconds_of(a), 1'000'000u);
}

}  // namespace
}  // namespace softhca::engine
