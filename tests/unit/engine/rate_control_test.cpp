// Tenants held back by their rates, without an engine.
#include "daemon/engine/rate_control.hpp"

#include <gtest/gtest.h>

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

class Rates : public ::testing::Test {
 protected:
  std::vector<Tenant*> released() {
    std::vector<Tenant*> out;
    rates.release([&](Tenant& tenant) { out.push_back(&tenant); });
    return out;
  }

  StepClock clock{Time(std::chrono::seconds(1))};
  RateControl rates{clock};
  Tenant fast, slow;
};

TEST_F(Rates, ATenantWithoutOneIsNeverHeldBack) {
  rates.charge(fast, 1u << 30);
  EXPECT_FALSE(fast.throttled());
  EXPECT_EQ(rates.next_release(), kNever);
}

TEST_F(Rates, HeldBackUntilTheDebtIsPaid) {
  rates.set(slow, {.messages_per_second = 1000, .burst_messages = 2});
  rates.charge(slow, 1);
  EXPECT_FALSE(slow.throttled());
  rates.charge(slow, 1);
  EXPECT_TRUE(slow.throttled()) << "its burst is used up";
  EXPECT_EQ(slow.counters.throttled.value(), 1u);
  EXPECT_TRUE(released().empty());
  const Time due = rates.next_release();
  EXPECT_GT(due, clock.now);
  clock.now = due;
  EXPECT_EQ(released(), std::vector{&slow});
  EXPECT_FALSE(slow.throttled());
  EXPECT_EQ(slow.counters.throttled_ns.value(),
            static_cast<std::uint64_t>((due - Time(std::chrono::seconds(1))).count()));
  EXPECT_EQ(rates.next_release(), kNever);
}

TEST_F(Rates, BytesCountAsMuchAsTheyAre) {
  rates.set(slow, {.bytes_per_second = 1'000'000, .burst_bytes = 1000});
  rates.charge(slow, 101'000);
  ASSERT_TRUE(slow.throttled());
  EXPECT_NEAR(static_cast<double>((rates.next_release() - clock.now).count()), 1e8, 1e6);
}

TEST_F(Rates, WhoGoesIsForgotten) {
  rates.set(slow, {.messages_per_second = 1, .burst_messages = 1});
  for (int i = 0; i < 3; ++i) rates.charge(slow, 1);
  ASSERT_TRUE(slow.throttled());
  rates.forget(slow);
  clock.now += std::chrono::seconds(10);
  EXPECT_TRUE(released().empty());
}

}  // namespace
}  // namespace softhca::engine
