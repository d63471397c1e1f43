// Turns and budgets by themselves: what a turn costs decides when the next one comes.
#include "daemon/engine/cpu_scheduler.hpp"

#include <gtest/gtest.h>

#include <map>

#include "daemon/engine/costs.hpp"
#include "tests/unit/engine/process.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

class Turns : public ::testing::Test {
 protected:
  Turns() {
    for (std::uint16_t i = 0; i < 2; ++i) {
      tenants[i].id = TenantId(i);
      sessions[i].qos_class = QosClassId(i);
      cpu.order().join(QosClassId(i), TenantId(i));
    }
  }
  QueuePair& make(std::size_t tenant) {
    pairs.push_back(std::make_unique<QueuePair>());
    QueuePair& qp = *pairs.back();
    qp.slot = static_cast<std::uint32_t>(pairs.size() - 1);
    qp.tenant = &tenants[tenant];
    qp.session = &sessions[tenant];
    qp.qos_class = QosClassId(static_cast<std::uint16_t>(tenant));
    return qp;
  }
  /// Serves turns; each costs what `cost_of` its queue pair says, and leaves more to do.
  void serve(int turns, const std::map<const QueuePair*, std::uint64_t>& cost_of) {
    for (int i = 0; i < turns; ++i) {
      const auto slot = cpu.begin();
      ASSERT_TRUE(slot);
      QueuePair& qp = *pairs[*slot];
      cpu.add(cost_of.at(&qp));
      cpu.finished(qp, true);
    }
  }
  double done_of(std::size_t tenant) {
    return static_cast<double>(tenants[tenant].counters.engine_cost.value());
  }

  StepClock clock;
  Tenant tenants[2];
  RingMemory memory{sizeof(abi::SessionHeader)};
  Session sessions[2] = {
      {SessionId(1), tenants[0], shm::SessionView(memory.base(), 0), VcbId(0)},
      {SessionId(2), tenants[1], shm::SessionView(memory.base(), 0), VcbId(0)},
  };
  CpuScheduler cpu{clock, 64, 2, 2};
  std::vector<std::unique_ptr<QueuePair>> pairs;
};

TEST_F(Turns, TenantsShareByCostAndNotByQueuePairs) {
  std::map<const QueuePair*, std::uint64_t> cost_of;
  for (int i = 0; i < 9; ++i) cost_of[&make(0)] = 50000;
  cost_of[&make(1)] = 3000;
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  serve(20000, cost_of);
  EXPECT_NEAR(done_of(0) / done_of(1), 1.0, 0.05);
  EXPECT_EQ(cpu.done(), done_of(0) + done_of(1));
}

TEST_F(Turns, WeightsDivideTheTime) {
  cpu.order().set_tenant_weight(TenantId(0), 3);
  std::map<const QueuePair*, std::uint64_t> cost_of{{&make(0), 5000}, {&make(1), 5000}};
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  serve(20000, cost_of);
  EXPECT_NEAR(done_of(0) / done_of(1), 3.0, 0.1);
}

TEST_F(Turns, WhatIsChargedOutsideTurnsCountsLikewise) {
  std::map<const QueuePair*, std::uint64_t> cost_of{{&make(0), 5000}, {&make(1), 5000}};
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  for (int i = 0; i < 2000; ++i) {
    cpu.charge(sessions[0], 20000);
    serve(2, cost_of);
  }
  const double by_itself = 2000.0 * 20000;
  EXPECT_GT(done_of(0), by_itself);
  EXPECT_GT(done_of(1), (done_of(0) - by_itself) * 10) << "the other one has nearly all the turns";
}

TEST_F(Turns, WhoHasHadMoreTakesInNothingMore) {
  QueuePair& other = make(1);
  cpu.make_ready(other);
  EXPECT_TRUE(cpu.may_take_in(QosClassId(0)));
  cpu.charge(sessions[0], 100 * kAlone.ingress);
  EXPECT_FALSE(cpu.may_take_in(QosClassId(0)));
  EXPECT_TRUE(cpu.may_take_in(QosClassId(1)));
  cpu.remove(other);
  EXPECT_TRUE(cpu.may_take_in(QosClassId(0))) << "nobody else wants anything";
}

/// Peers cannot put off a tenant for ever.
TEST_F(Turns, PacketsFromOutsideDeferABoundedTime) {
  QueuePair &flooded = make(0), &other = make(1);
  cpu.make_ready(other);
  for (int i = 0; i < 100000; ++i) cpu.charge_packet(flooded, 1024);
  cpu.make_ready(flooded);
  std::uint64_t waited = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto slot = cpu.begin();
    ASSERT_TRUE(slot);
    if (*slot == flooded.slot) break;
    cpu.add(5000);
    waited += 5000;
    cpu.finished(other, true);
  }
  EXPECT_LE(waited, 2 * CpuScheduler::kReceiveDebt);
}

TEST_F(Turns, BudgetsFollowWhoCompetes) {
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kAlone);
  QueuePair &busy = make(0), &other = make(1);
  cpu.make_ready(busy);
  ASSERT_TRUE(cpu.begin());
  EXPECT_FALSE(cpu.note_competition(busy.qos_class, cpu.order(), true)) << "nobody waits";
  cpu.make_ready(other);
  EXPECT_TRUE(cpu.note_competition(busy.qos_class, cpu.order(), true));
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kContended);
  clock.now += milliseconds(2);
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kAlone);
  for (int i = 0; i < 1000; ++i) cpu.note_competition(busy.qos_class, cpu.order(), true);
  clock.now += milliseconds(40);
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kContended) << "expected of who competed often";
  clock.now += milliseconds(11);
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kAlone);
}

}  // namespace
}  // namespace softhca::engine
