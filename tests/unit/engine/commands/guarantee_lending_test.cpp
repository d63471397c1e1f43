// SPDX-License-Identifier: Apache-2.0

// Guarantees lent while they are idle, without an engine; adjust_test.cpp has them with commands.
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

constexpr AdjustmentPolicy kLendingPolicy{.idle = std::chrono::seconds(4), .keep = 0};

class GuaranteeLendingTest : public Parts {
 protected:
  GuaranteeLendingTest() { addresses.add(tenant); }
  void look(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock.now += std::chrono::seconds(1);
      lending.adjust(kLendingPolicy);
    }
  }
  std::uint64_t lent() const { return pcbs.group(tenant.qos_class).pcbs.lent.value(); }
};

TEST_F(GuaranteeLendingTest, WhoDoesNotLendKeepsWhatIsIdle) {
  tenant.counters.sessions.add();
  look(10);
  EXPECT_EQ(lent(), 0u);
  EXPECT_EQ(tvls[tvl].execution.lent.value(), 0u);
}

TEST_F(GuaranteeLendingTest, WhatIsIdleIsLentAfterAWhile) {
  tenant.lends = true;
  tenant.counters.sessions.add();
  look(3);
  EXPECT_EQ(lent(), 0u);
  look(3);
  EXPECT_EQ(lent(), 4u);
}

TEST_F(GuaranteeLendingTest, ATenantWithoutProcessesLendsAtOnce) {
  tenant.lends = true;
  look(1);
  EXPECT_EQ(lent(), 4u);
}

TEST_F(GuaranteeLendingTest, WhatIsLentComesBackWhenItsOwnerStopsLending) {
  tenant.lends = true;
  look(1);
  ASSERT_EQ(lent(), 4u);
  tenant.lends = false;
  look(1);
  EXPECT_EQ(lent(), 0u);
}

}  // namespace
}  // namespace softhca::engine
