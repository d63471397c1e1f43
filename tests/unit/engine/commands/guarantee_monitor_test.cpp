// SPDX-License-Identifier: Apache-2.0

// Shares of the engine's time, as the watch sees them.
#include "daemon/engine/commands/guarantee_monitor.hpp"

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class EngineShare : public Parts {
 protected:
  EngineShare() {
    other.id = TenantId(1);
    other.qos_class = *pcbs.add_group({.tenant = other.id, .guaranteed = 2});
    cpu.order().join(other.qos_class, other.id);
    addresses.add(tenant);
    addresses.add(other);
  }

  /// Seconds in which the tenant has `share` of the engine's time, and the other one the rest, and
  /// of 100 looks `waiting` find it waiting for the engine alone.
  void run(int seconds, double share, int waiting = 100) {
    for (int i = 0; i < seconds * 1000; ++i) {
      clock.now += std::chrono::milliseconds(1);
      const double time = 1e6 * kUnitsPerNanosecond;
      tenant.counters.engine_time.add(static_cast<std::uint64_t>(share * time));
      other.counters.engine_time.add(static_cast<std::uint64_t>((1 - share) * time));
      watch.begin_census();
      watch.looked(qp.qp, i % 100 < waiting);
    }
  }
  std::uint64_t not_kept() const {
    return tenant.counters.waits.not_kept[static_cast<std::size_t>(Guarantee::kEngineTime)].value();
  }

  Tenant other;
  GuaranteeMonitor watch{clock, addresses, cpu.order(), pcbs, tvls, event_log, kTenants};
};

TEST_F(EngineShare, LessThanItIsAnEvent) {
  run(3, 0.3);
  ASSERT_EQ(event_log.count(), 1u) << "one in ten seconds";
  EXPECT_EQ(event_log[0].kind, DaemonEventKind::kGuaranteeNotKept);
  EXPECT_EQ(event_log[0].tenant, tenant.id);
  EXPECT_NE(std::string(event_log[0].cause).find("engine"), std::string::npos);
  EXPECT_NEAR(static_cast<double>(not_kept()), 2 * 0.2e9, 0.3e9);
  run(10, 0.3);
  EXPECT_EQ(event_log.count(), 2u);
}

TEST_F(EngineShare, HavingItIsNone) {
  run(3, 0.5);
  run(3, 0.4);  // about it: turns are not divided more finely
  EXPECT_EQ(event_log.count(), 0u);
  EXPECT_EQ(not_kept(), 0u);
}

TEST_F(EngineShare, FollowsWeights) {
  cpu.order().set_tenant_weight(other.id, 3);
  run(3, 0.25);
  EXPECT_EQ(event_log.count(), 0u);
  cpu.order().set_tenant_weight(other.id, 1);
  cpu.order().set_tenant_weight(tenant.id, 3);
  run(3, 0.5);
  EXPECT_EQ(event_log.count(), 1u);
}

TEST_F(EngineShare, IsForWhoWantsItAllTheTime) {
  run(5, 0.1, 90);
  EXPECT_EQ(event_log.count(), 0u);
}

TEST_F(EngineShare, IsNotJudgedByATimeInWhichTheEngineSlept) {
  clock.now += std::chrono::seconds(5);
  run(1, 0.5);
  const std::uint64_t before = event_log.count();
  other.counters.engine_time.add(std::uint64_t{8} << 40);
  clock.now += std::chrono::seconds(5);
  watch.begin_census();
  EXPECT_EQ(event_log.count(), before);
}

}  // namespace
}  // namespace softhca::engine
