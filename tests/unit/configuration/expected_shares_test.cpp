// SPDX-License-Identifier: Apache-2.0

// What tenants and levels may count on.
#include "daemon/configuration/resource_manager/expected_shares.hpp"

#include <gtest/gtest.h>

namespace softhca::configuration {
namespace {

/// The pools have 100 VCBs, 80 PCBs, 50 execution credits and 60 completion credits. `sea` has 40
/// VCBs, 30 PCBs and two TVLs with 10 credits of each kind. Its level `high` has 10 VCBs, 20 PCBs
/// and the first TVL, of weight 3. `sky` has 20 VCBs, 10 PCBs and one TVL with 5 credits of each
/// kind.
Config shared_out() {
  Config config;
  config.pools.vcbs = 100;
  config.pools.pcbs = 84;
  config.pools.dedicated_pcbs = 4;
  config.pools.execution_credits = 50;
  config.pools.completion_credits = 60;
  TenantConfig& sea = config.tenants.emplace_back();
  sea.name = "sea";
  sea.vcbs = 40;
  sea.pcbs = 30;
  sea.tvls = {{.weight = 3, .execution_credits = 10, .completion_credits = 10},
              {.weight = 1, .execution_credits = 10, .completion_credits = 10}};
  sea.levels = {{.name = "high", .vcbs = 10, .pcbs = 20, .tvls = 1, .shared = false},
                {.name = "low", .vcbs = 5, .pcbs = 5}};
  TenantConfig& sky = config.tenants.emplace_back();
  sky.name = "sky";
  sky.vcbs = 20;
  sky.pcbs = 10;
  sky.tvls = {{.weight = 1, .execution_credits = 5, .completion_credits = 5}};
  return config;
}

using Amount = ExpectedAmount;

TEST(ExpectedShares, TenantsDrawOnWhatNobodyIsGuaranteed) {
  const auto shares = expected_shares(shared_out());
  ASSERT_EQ(shares.size(), 4u);
  const ExpectedShare& sea = shares[0];
  EXPECT_EQ(sea.tenant, "sea");
  EXPECT_EQ(sea.level, "");
  EXPECT_EQ(sea.vcbs, (Amount{40, 80}));
  EXPECT_EQ(sea.pcbs, (Amount{30, 70}));
  EXPECT_EQ(sea.tvls, (Amount{2, 2}));
  EXPECT_EQ(sea.execution_credits, (Amount{20, 45}));
  EXPECT_EQ(sea.completion_credits, (Amount{20, 55}));
  EXPECT_EQ(shares[3].vcbs, (Amount{20, 60}));
}

TEST(ExpectedShares, AHardCapIsItsCeiling) {
  Config config = shared_out();
  config.tenants[0].shared = false;
  const auto shares = expected_shares(config);
  EXPECT_EQ(shares[0].pcbs, (Amount{30, 30}));
  EXPECT_EQ(shares[0].execution_credits, (Amount{20, 20}));
  EXPECT_EQ(shares[2].pcbs, (Amount{5, 10})) << "what the tenant's levels do not divide";
}

TEST(ExpectedShares, LevelsDrawOnWhatIsUndividedAndThenOnThePool) {
  const auto shares = expected_shares(shared_out());
  const ExpectedShare& high = shares[1];
  EXPECT_EQ(high.level, "high");
  EXPECT_EQ(high.vcbs, (Amount{10, 10}));
  EXPECT_EQ(high.execution_credits, (Amount{10, 10}));
  const ExpectedShare& low = shares[2];
  EXPECT_EQ(low.vcbs, (Amount{5, 5 + 25 + 40}));
  EXPECT_EQ(low.pcbs, (Amount{5, 5 + 5 + 40}));
  EXPECT_EQ(low.tvls, (Amount{0, 1})) << "that no level has";
  EXPECT_EQ(low.execution_credits, (Amount{0, 10 + 25}));
}

TEST(ExpectedShares, WeightsShareTheEngine) {
  const auto shares = expected_shares(shared_out());
  EXPECT_EQ(shares[0].weight, 3u);
  EXPECT_EQ(shares[0].weights, 4u);
  EXPECT_DOUBLE_EQ(shares[0].engine, 0.75);
  EXPECT_DOUBLE_EQ(shares[3].engine, 0.25);
  EXPECT_EQ(shares[1].weights, 4u);
  EXPECT_DOUBLE_EQ(shares[1].engine, 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(shares[2].engine, 0.75 * 0.25);
}

TEST(ExpectedShares, WhatRemovedOnesHoldIsNotThere) {
  const Held held{.vcbs = 10, .pcbs = 7, .parts = {{.tenant = "sea", .vcbs = 3, .pcbs = 2}}};
  const auto shares = expected_shares(shared_out(), held);
  EXPECT_EQ(shares[0].vcbs, (Amount{40, 70}));
  EXPECT_EQ(shares[0].pcbs, (Amount{30, 63}));
  EXPECT_EQ(shares[2].vcbs, (Amount{5, 5 + 22 + 30}));
}

}  // namespace
}  // namespace softhca::configuration
