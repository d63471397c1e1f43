// SPDX-License-Identifier: Apache-2.0

// Turns and budgets by themselves: what a turn costs decides when the next one comes.
#include "daemon/engine/turns/cpu_scheduler.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/process.hpp"

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
    return static_cast<double>(tenants[tenant].counters.engine_time.value());
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
  cpu.charge(sessions[0], 100 * kAlone.intake);
  EXPECT_FALSE(cpu.may_take_in(QosClassId(0)));
  EXPECT_TRUE(cpu.may_take_in(QosClassId(1)));
  cpu.remove(other);
  EXPECT_TRUE(cpu.may_take_in(QosClassId(0))) << "no other tenant wants anything";
}

/// Peers cannot put off a tenant for ever.
TEST_F(Turns, PacketsFromOutsideDeferABoundedTime) {
  QueuePair &flooded = make(0), &other = make(1);
  cpu.make_ready(other);
  for (int i = 0; i < 100000; ++i) cpu.charge_packet(*flooded.tenant, flooded.qos_class, 1024);
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
  EXPECT_EQ(&cpu.budget(), &kContended) << "expected of a tenant that competed often";
  clock.now += milliseconds(11);
  cpu.choose_budget();
  EXPECT_EQ(&cpu.budget(), &kAlone);
}

/// Turns by the clock, of tenants that compete.
class MeasuredTurns : public Turns {
 protected:
  MeasuredTurns() {
    cpu.measure_by(&work_clock);
    QueuePair &a = make(0), &b = make(1);
    cpu.make_ready(a);
    cpu.make_ready(b);
    EXPECT_TRUE(cpu.note_competition(a.qos_class, cpu.order(), true));
    cpu.remove(a);
    cpu.remove(b);
    pairs.clear();
    cpu.choose_budget();
  }
  std::uint64_t time_of(std::size_t tenant) { return tenants[tenant].counters.engine_time.value(); }
  /// Each turn counts as 2000, and takes what `time_of` its queue pair says.
  void serve_by_time(int turns, const std::map<const QueuePair*, std::uint64_t>& times) {
    for (int i = 0; i < turns; ++i) {
      const auto slot = cpu.begin();
      ASSERT_TRUE(slot);
      QueuePair& qp = *pairs[*slot];
      cpu.add(2000 - kRunCost);
      time += times.at(&qp);
      cpu.finished(qp, true);
    }
  }

  std::uint64_t time = 0;
  WorkClock work_clock{time};
};

TEST_F(MeasuredTurns, TenantsShareTimeWhateverTheirWorkCountsAs) {
  std::map<const QueuePair*, std::uint64_t> times{{&make(0), 40000}, {&make(1), 1000}};
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  serve_by_time(20000, times);
  EXPECT_NEAR(done_of(0) / done_of(1), 1.0, 0.05);
  EXPECT_EQ(cpu.spent(), time_of(0) + time_of(1));
}

TEST_F(MeasuredTurns, TheTimeOfAPieceOfWorkIsDividedByWhatItCountsAs) {
  cpu.charge(sessions[0], 3000);
  cpu.charge(sessions[1], 1000);
  cpu.charge(sessions[0], 3000);
  EXPECT_EQ(time_of(0), 0u) << "it goes on";
  time += 1400;
  cpu.end_work();
  EXPECT_EQ(time_of(0), 1200u);
  EXPECT_EQ(time_of(1), 200u);
  time += 500;
  cpu.end_work();
  EXPECT_EQ(time_of(0) + time_of(1), 1400u) << "nothing has been charged";
}

TEST_F(MeasuredTurns, WhatIsDoneForAnotherInATurnIsItsOwn) {
  QueuePair &qp = make(0), &waits = make(1);
  cpu.make_ready(waits);
  cpu.make_ready(qp);  // the newly ready queue pair is served first
  ASSERT_TRUE(cpu.begin());
  cpu.add(4000 - kRunCost);
  cpu.charge(sessions[1], 1000);
  time += 10000;
  cpu.finished(qp, false);
  EXPECT_EQ(time_of(0), 8000u);
  EXPECT_EQ(time_of(1), 2000u);
}

TEST_F(MeasuredTurns, WorkForTheSameClassIsMeasuredTogether) {
  QueuePair& qp = make(0);
  cpu.charge(sessions[0], 1000);
  cpu.make_ready(qp);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cpu.begin());
    time += 3000;
    cpu.finished(qp, true);  // no other queue pair waits
  }
  EXPECT_EQ(time_of(0), 0u);
  cpu.begin_work(QosClassId(1));
  EXPECT_EQ(time_of(0), 6000u);
  cpu.charge(sessions[1], 10);
  time += 500;
  cpu.begin_work(QosClassId(1));
  EXPECT_EQ(time_of(1), 0u) << "it goes on";
  ASSERT_TRUE(cpu.begin());
  EXPECT_EQ(time_of(1), 500u) << "the turn is another's";
  cpu.finished(qp, false);
}

TEST_F(MeasuredTurns, TimeForNobodyIsChargedToNobody) {
  time += 5000;
  cpu.end_any_work();
  cpu.charge(sessions[0], 100);
  time += 70;
  cpu.end_any_work();
  EXPECT_EQ(time_of(0), 70u);
  EXPECT_EQ(cpu.spent(), 5070u);
}

/// A step is bounded by what is done in it.
TEST_F(MeasuredTurns, WorkThatTakesFarLongerThanItCountsAsCountsForMore) {
  cpu.charge(sessions[0], 1000);
  time += 2000;
  cpu.end_work();
  EXPECT_EQ(cpu.done(), 1000u);
  cpu.charge(sessions[0], 1000);
  time += 400'000;
  cpu.end_work();
  EXPECT_EQ(cpu.done(), 1000u + 100'000u);
  EXPECT_EQ(cpu.spent(), 402'000u);
}

TEST_F(MeasuredTurns, TimeSpentNeverGoesBack) {
  cpu.charge(sessions[0], 5000);
  EXPECT_EQ(cpu.spent(), 5000u) << "as far as is known";
  time += 2000;
  cpu.end_work();
  EXPECT_EQ(cpu.spent(), 5000u);
  cpu.charge(sessions[0], 4000);
  EXPECT_EQ(cpu.spent(), 6000u);
}

TEST_F(MeasuredTurns, WorkOutsideTurnsDefersThemByItsTime) {
  std::map<const QueuePair*, std::uint64_t> times{{&make(0), 5000}, {&make(1), 5000}};
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  for (int i = 0; i < 2000; ++i) {
    cpu.charge(sessions[0], 100);
    time += 20000;
    cpu.end_work();
    serve_by_time(2, times);
  }
  const double by_itself = 2000.0 * 20000;
  EXPECT_GT(done_of(1), (done_of(0) - by_itself) * 10) << "the other one has nearly all the turns";
}

/// What a tenant sends for its minimum rate does not cost it its share of the rest.
TEST_F(MeasuredTurns, WhatComesOfTurnsThatWentFirstDefersNone) {
  std::map<const QueuePair*, std::uint64_t> times{{&make(0), 5000}, {&make(1), 5000}};
  for (const auto& qp : pairs) cpu.make_ready(*qp);
  for (int i = 0; i < 2000; ++i) {
    cpu.charge(tenants[0], QosClassId(0), 100, true);
    time += 20000;
    cpu.end_work();
    serve_by_time(2, times);
  }
  const double by_itself = 2000.0 * 20000;
  EXPECT_NEAR((done_of(0) - by_itself) / done_of(1), 1, 0.01);
}

TEST_F(MeasuredTurns, WhileNobodyCompetesTheTimeOfAStepIsDivided) {
  clock.now += milliseconds(100);
  cpu.choose_budget();
  QueuePair& qp = make(0);
  cpu.make_ready(qp);
  ASSERT_TRUE(cpu.begin());
  cpu.add(3000 - kRunCost);
  time += 1600;
  cpu.finished(qp, false);
  cpu.charge(sessions[1], 1000);
  cpu.end_work();
  cpu.end_any_work();
  EXPECT_EQ(time_of(0), 0u) << "the clock is not read for each";
  cpu.end_step();
  EXPECT_EQ(time_of(0), 1200u);
  EXPECT_EQ(time_of(1), 400u);
}

TEST_F(MeasuredTurns, WithoutAClockWorkTakesWhatItCountsAs) {
  cpu.measure_by(nullptr);
  cpu.charge(sessions[0], 3000);
  EXPECT_EQ(time_of(0), 3000u);
  EXPECT_EQ(cpu.spent(), 3000u);
}

}  // namespace
}  // namespace softhca::engine
