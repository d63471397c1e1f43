// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/vcb_adjustment.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

/// Programs of tenant 0, each with 4 VCBs to begin with; the pool has 128.
class VcbAdjustmentTest : public ::testing::Test {
 protected:
  static configuration::Config few_vcbs() {
    configuration::Config config = small_config();
    config.pools.vcbs = 128;
    for (configuration::TenantConfig& tenant : config.tenants) {
      tenant.vcbs = 0;
      tenant.vcbs_per_process = 4;
    }
    return config;
  }
  ~VcbAdjustmentTest() {
    for (Client* client : {&first, &second, &other}) client->end();
    EXPECT_EQ(daemon.adapter.vcbs.free(), 128u);
  }
  void set_vcbs(std::uint32_t base) {
    daemon.reconfigure([&](auto& tenant) { tenant.vcbs_per_process = base; });
  }
  engine::TenantControl& figures() { return daemon.adapter.tenants[0]->control; }
  /// A second passes, in which `client` misses VCBs.
  void miss(Client& client) {
    daemon.worker.run(
        engine::Task{[&](engine::Engine&) { client.vcb_holder().session->vcbs_missed.add(1000); }});
    adjust();
  }
  void adjust() {
    std::vector<VcbHolder> holders;
    for (Client* client : {&first, &second, &other})
      if (client->vcb_holder().session != nullptr) holders.push_back(client->vcb_holder());
    adjust_vcbs(daemon.adapter, holders);
    for (const VcbHolder& holder : holders) {
      EXPECT_EQ(holder.session->view.granted(), holder.grant->count());
    }
  }
  std::uint32_t count(Client& client) { return client.vcb_holder().grant->count(); }

  Daemon daemon{few_vcbs()};
  Client first{daemon}, second{daemon}, other{daemon, 1};
};

TEST_F(VcbAdjustmentTest, AProgramThatMissesVcbsGetsMore) {
  ASSERT_EQ(first.start(), 0);
  EXPECT_EQ(count(first), 4u);
  adjust();
  EXPECT_EQ(count(first), 4u);
  miss(first);
  EXPECT_EQ(count(first), 8u);
  miss(first);
  EXPECT_EQ(count(first), 16u);
  miss(first);
  EXPECT_EQ(count(first), 32u);
  miss(first);
  EXPECT_EQ(count(first), 64u);
  miss(first);
  EXPECT_EQ(count(first), 64u) << "no more than a session has places";
  EXPECT_EQ(figures().vcbs_added.value(), 60u);
  for (unsigned look = 1; look < VcbGrant::kQuietLooks; ++look) adjust();
  EXPECT_EQ(count(first), 64u);
  adjust();
  EXPECT_EQ(count(first), 34u) << "half of the rest goes back when they are not missed";
  EXPECT_EQ(figures().vcbs_taken_back.value(), 30u);
}

TEST_F(VcbAdjustmentTest, SettingsReachProgramsThatRun) {
  ASSERT_EQ(first.start(), 0);
  set_vcbs(10);
  adjust();
  EXPECT_EQ(count(first), 10u);
  set_vcbs(3);
  adjust();
  EXPECT_EQ(count(first), 10u) << "the rest goes back only when it is not missed for a while";
  for (unsigned look = 2; look < VcbGrant::kQuietLooks; ++look) adjust();
  EXPECT_EQ(count(first), 6u);
  set_vcbs(0);
  adjust();
  EXPECT_EQ(count(first), 0u);
  miss(first);
  EXPECT_EQ(count(first), 0u) << "doorbells only";
}

TEST_F(VcbAdjustmentTest, WhoLacksItsOwnGetsWhatOthersHaveBeyondTheirs) {
  ASSERT_TRUE(daemon.adapter.vcbs.set_guarantee(figures().vcbs, 10));
  figures().vcbs.may_share = false;
  ASSERT_EQ(first.start(), 0);
  miss(first), miss(first);
  EXPECT_EQ(count(first), 10u) << "a hard cap";
  ASSERT_EQ(second.start(), 0);
  EXPECT_EQ(count(second), 0u);
  adjust();
  EXPECT_EQ(count(first), 7u);
  EXPECT_EQ(count(second), 3u);
  miss(first);
  EXPECT_EQ(count(first), 5u);
  EXPECT_EQ(count(second), 4u);
}

TEST_F(VcbAdjustmentTest, WhatIsSharedGoesBackWhenAnotherTenantLacksVcbs) {
  engine::TenantControl& theirs = daemon.adapter.tenants[1]->control;
  ASSERT_TRUE(daemon.adapter.vcbs.set_guarantee(theirs.vcbs, 110));
  ASSERT_EQ(first.start(), 0);
  miss(first), miss(first);
  EXPECT_EQ(count(first), 16u) << "of the 18 that are shared";
  miss(first);
  EXPECT_EQ(count(first), 10u) << "less than a quarter of them is free";
  ASSERT_TRUE(daemon.adapter.vcbs.set_guarantee(figures().vcbs, 10));
  adjust();
  EXPECT_EQ(count(first), 10u) << "it is guaranteed them";
}

}  // namespace
}  // namespace softhca::control
