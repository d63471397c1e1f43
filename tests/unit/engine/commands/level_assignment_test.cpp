// SPDX-License-Identifier: Apache-2.0

// Queue pairs come to levels by their service level and traffic class, and what is said of a level
// holds for their commands, whatever the level of their process.
#include "daemon/engine/commands/level_assignment.hpp"

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint8_t kUrgent = 3;  ///< service level of `urgent`
constexpr std::uint16_t only(std::uint8_t service_level) {
  return static_cast<std::uint16_t>(1u << service_level);
}

TEST(LevelOfPath, TrafficClassesGoBeforeServiceLevelsAndTheOperatorBeforeTheTenant) {
  Tenant tenant;
  for (const char* name : {"a", "b", "c", "d"})
    tenant.levels.emplace_back(std::make_unique<Level>())->name = name;
  const auto found = [&](std::uint8_t service_level, std::uint8_t traffic_class) -> std::string {
    const Level* level = find_level(tenant, {.source = {},
                                             .destination = {},
                                             .port = {},
                                             .traffic_class = traffic_class,
                                             .service_level = service_level});
    return level == nullptr ? "none" : level->name;
  };
  EXPECT_EQ(found(0, 0), "none");
  tenant.levels[0]->own_rules = {.service_levels = only(5), .dscps = std::uint64_t{1} << 26};
  tenant.levels[1]->rules = {.service_levels = only(5) | only(6), .dscps = 0};
  tenant.levels[2]->rules = {.service_levels = 0, .dscps = std::uint64_t{1} << 46};
  tenant.levels[3]->own_rules = {.service_levels = only(7) | only(15), .dscps = 1};
  EXPECT_EQ(found(6, 0), "b");
  EXPECT_EQ(found(5, 26 << 2), "b") << "the operator's service level before the tenant's class";
  EXPECT_EQ(found(6, 46 << 2), "c");
  EXPECT_EQ(found(9, 26 << 2), "a");
  EXPECT_EQ(found(9, (26 << 2) + 2), "a") << "the bits of ECN do not count";
  EXPECT_EQ(found(9, 27 << 2), "none");
  EXPECT_EQ(found(9, 0), "d") << "a program that says nothing has traffic class 0";
  EXPECT_EQ(found(15, 4), "d");
  EXPECT_EQ(found(16, 4), "none");
  EXPECT_EQ(found(255, 255), "none");
}

/// Tenant `a` has the levels `plain`, of all its processes, and `urgent`, which has two PCBs and no
/// more.
class Assigned : public BothWays {
 protected:
  Assigned() : pair(GetParam()) {
    pair.a->end();
    process = std::make_unique<Process>(adapter, tenant, Process::kVcbs, &plain);
    cq = &process->make_cq();
    from = &process->make_buffer(64);
    to = &pair.b->make_buffer(64);
    urgent.rules.service_levels = only(kUrgent);
  }
  ~Assigned() { process->end(); }

  TestQp& connect_with(std::uint8_t service_level, QpType type = QpType::kRc) {
    TestQp& near = process->make_qp(*cq, *cq, {.type = type, .send_entries = 64});
    TestQp& far = pair.b->make_qp(*pair.cb, *pair.cb, {.type = type});
    near.qp.connection.route.path.service_level = service_level;
    connect(*process, near, *pair.b, far);
    return near;
  }
  void write(TestQp& qp, Process::Way way = Process::Way::kVcb) {
    process->post(qp,
                  {.opcode = abi::Opcode::kRdmaWrite,
                   .sge = {from->all()},
                   .remote_addr = to->addr(),
                   .rkey = to->key},
                  way);
  }
  std::size_t completed() {
    pair.run_for(std::chrono::milliseconds(5));
    return cq->poll_all().size();
  }
  const collect::CollectGroup& group(const Level& level) {
    return adapter.engine.pcbs().group(level.qos_class);
  }

  Pair pair;
  Adapter& adapter = *pair.adapters[0];
  Tenant& tenant = *adapter.tenants[0];
  Level& plain = adapter.add_level(tenant, "plain", {.pcbs = 4});
  Level& urgent = adapter.add_level(tenant, "urgent", {.pcbs = 2, .shared = false});
  std::unique_ptr<Process> process;
  TestCq* cq;
  Buffer* from;
  Buffer* to;
};

TEST_P(Assigned, ByServiceLevelUntilItIsReset) {
  TestQp& other = connect_with(0);
  EXPECT_EQ(level_of(other.qp), &plain);
  TestQp& qp = connect_with(kUrgent);
  EXPECT_EQ(level_of(qp.qp), &urgent);
  EXPECT_EQ(qp.qp.qos_class, urgent.qos_class);
  EXPECT_EQ(adapter.engine.tvls()[qp.qp.sq.tvl].qos_class, urgent.qos_class);
  EXPECT_EQ(adapter.engine.tvls()[qp.qp.sq.dedicated_tvl].qos_class, urgent.qos_class);
  EXPECT_EQ(urgent.counters.assigned_queue_pairs.value(), 1u);
  EXPECT_EQ(plain.counters.assigned_queue_pairs.value(), 0u);
  urgent.rules = {};  // as by a reload
  write(qp);
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(level_of(qp.qp), &urgent) << "it stays there while it is connected";
  process->reset(qp);
  EXPECT_EQ(level_of(qp.qp), &plain);
  EXPECT_EQ(adapter.engine.tvls()[qp.qp.sq.tvl].qos_class, plain.qos_class);
  EXPECT_EQ(urgent.counters.assigned_queue_pairs.value(), 0u);
}

TEST_P(Assigned, CommandsOfEitherWayAreTheLevels) {
  TestQp& other = connect_with(0);
  TestQp& qp = connect_with(kUrgent);
  for (int i = 0; i < 20; ++i) {
    write(qp, i % 2 == 0 ? Process::Way::kVcb : Process::Way::kDoorbell);
    if (i % 3 == 0) {
      EXPECT_GE(completed(), 1u);
    }
  }
  completed();
  EXPECT_EQ(urgent.counters.commands_vcb.value() + urgent.counters.commands_doorbell.value(), 20u);
  EXPECT_GT(urgent.counters.commands_vcb.value(), 0u);
  EXPECT_EQ(plain.counters.commands_vcb.value(), 0u);
  EXPECT_EQ(urgent.counters.arbitration_wait.count(), 20u);
  EXPECT_GT(group(urgent).pcbs.high_water.value(), 0u);
  write(other);
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(plain.counters.commands_vcb.value(), 1u);
  EXPECT_EQ(plain.counters.arbitration_wait.count(), 1u);
}

/// Its VCBs are its process's, its PCBs the level's.
TEST_P(Assigned, TheCapOfTheLevelHolds) {
  TestQp& qp = connect_with(kUrgent);
  TestQp& other = connect_with(0);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) write(qp);
    for (int i = 0; i < 12; ++i) write(qp, Process::Way::kDoorbell);
    for (int step = 0; step < 200; ++step) {
      pair.step();
      ASSERT_LE(group(urgent).pcbs.in_use.value() + group(urgent).dedicated_in_use.value(), 2u);
    }
    write(other);
    EXPECT_EQ(completed(), 17u);
  }
  EXPECT_EQ(group(urgent).pcbs.high_water.value(), 2u);
  EXPECT_GT(group(urgent).refused.value(), 0u);
}

TEST_P(Assigned, TheRateOfTheLevelHolds) {
  TestQp& qp = connect_with(kUrgent);
  TestQp& other = connect_with(0);
  adapter.engine.rates().set(urgent.rate, {.messages_per_second = 100, .burst_messages = 1});
  for (int i = 0; i < 16; ++i) {
    write(qp, i % 2 == 0 ? Process::Way::kVcb : Process::Way::kDoorbell);
    write(other);
    pair.run_for(std::chrono::microseconds(100));
  }
  pair.run_for(std::chrono::milliseconds(50));
  const std::size_t done = cq->poll_all().size();
  EXPECT_GE(done, 16u + 4u);
  EXPECT_LE(done, 16u + 8u) << "100 a second, in 52 ms";
  EXPECT_TRUE(pair.run_until([&] { return qp.qp.sq.commands == 0 && other.qp.sq.commands == 0; }));
  pair.run_for(std::chrono::milliseconds(200));
  EXPECT_EQ(done + cq->poll_all().size(), 32u);
}

/// The rate of its process's level is for other queue pairs.
TEST_P(Assigned, TheRateOfItsProcessesLevelDoesNotHoldIt) {
  TestQp& qp = connect_with(kUrgent);
  TestQp& other = connect_with(0);
  adapter.engine.rates().set(plain.rate, {.messages_per_second = 1, .burst_messages = 1});
  write(other);
  EXPECT_EQ(completed(), 1u);
  write(other);
  for (int i = 0; i < 8; ++i) {
    write(qp, i % 2 == 0 ? Process::Way::kVcb : Process::Way::kDoorbell);
    EXPECT_EQ(completed(), 1u) << i;
  }
  pair.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cq->poll_all().size(), 1u);
}

TEST_P(Assigned, WaitsAreTheLevels) {
  TestQp& qp = connect_with(kUrgent);
  for (int i = 0; i < 4; ++i)
    process->post(qp, {.opcode = abi::Opcode::kSend, .sge = {from->all()}});
  pair.run_for(std::chrono::milliseconds(200));  // no receive
  const auto waited = [](const WaitCounters& waits) {
    std::uint64_t sum = 0;
    for (const Counter& time : waits.time) sum += time.value();
    return sum;
  };
  EXPECT_GT(waited(urgent.counters.waits), 100'000'000u);
  EXPECT_LT(waited(plain.counters.waits), 1'000'000u);
  process->reset(qp);
}

TEST_P(Assigned, DatagramQueuePairsAreOfTheirProcess) {
  TestQp& datagrams = process->make_qp(*cq, *cq, {.type = QpType::kUd});
  datagrams.qp.connection.route.path.service_level = kUrgent;
  bring_up_datagram(*process, datagrams, 1);
  EXPECT_EQ(level_of(datagrams.qp), &plain);
  EXPECT_EQ(urgent.counters.assigned_queue_pairs.value(), 0u);
}

TEST_P(Assigned, ItsEndLeavesTheLevelToNobody) {
  TestQp& qp = connect_with(kUrgent);
  const TvlId lane = qp.qp.sq.tvl;
  write(qp);
  process->destroy(qp);
  EXPECT_EQ(urgent.counters.assigned_queue_pairs.value(), 0u);
  EXPECT_EQ(adapter.engine.tvls()[lane].queue_pairs, 0u);
  connect_with(kUrgent);
  process->end();
  EXPECT_EQ(urgent.counters.assigned_queue_pairs.value(), 0u);
  EXPECT_EQ(group(urgent).pcbs.in_use.value(), 0u);
}

TEST_P(Assigned, AProcessOfNoLevelHasQueuePairsOfOne) {
  Process undivided(adapter, tenant);
  TestCq& its = undivided.make_cq();
  TestQp& near = undivided.make_qp(its, its);
  TestQp& far = pair.b->make_qp(*pair.cb, *pair.cb);
  near.qp.connection.route.path.service_level = kUrgent;
  connect(undivided, near, *pair.b, far);
  EXPECT_EQ(level_of(near.qp), &urgent);
  undivided.reset(near);
  EXPECT_EQ(level_of(near.qp), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Ways, Assigned, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
