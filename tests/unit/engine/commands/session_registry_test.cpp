// SPDX-License-Identifier: Apache-2.0

// Sessions as they come and go, without an engine.
#include "daemon/engine/commands/session_registry.hpp"

#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class Sessions : public Parts {
 protected:
  Sessions() {
    other.id = TenantId(1);
    other.qos_class = *pcbs.add_group({.tenant = other.id, .guaranteed = 2});
    coming.async_end = 7;
  }
  ~Sessions() override {
    if (installed) registry.remove(coming);
  }
  void install() {
    registry.install(coming);
    installed = true;
  }
  void remove() {
    registry.remove(coming);
    installed = false;
  }
  bool is_polled() const {
    const auto& all = intake.sessions();
    return std::find(all.begin(), all.end(), &coming) != all.end();
  }

  TvlAssignment tvl_assignment{core, intake, kTenants, kTenants};
  SessionRegistry registry{cpu, pcbs, intake, tvl_assignment, async_events};
  Tenant other;
  RingMemory coming_memory{abi::session_bytes(0)};
  Session coming{SessionId(2), other, shm::SessionView(coming_memory.base(), 0), VcbId(kVcbs)};
  bool installed = false;
};

TEST_F(Sessions, WhoComesIsCountedAndPolledWhenItsMemoryMayBe) {
  install();
  EXPECT_FALSE(is_polled());
  registry.poll(coming);
  EXPECT_TRUE(is_polled());
  EXPECT_EQ(coming.qos_class, other.qos_class);
  EXPECT_EQ(other.counters.sessions.value(), 1u);
  remove();
  EXPECT_FALSE(is_polled());
  EXPECT_EQ(other.counters.sessions.value(), 0u);
}

TEST_F(Sessions, ALevelHasItsClassAndCount) {
  Level level;
  level.qos_class = QosClassId(1);
  coming.level = &level;
  other.qos_class = QosClassId(0);
  install();
  EXPECT_EQ(coming.qos_class, level.qos_class);
  EXPECT_EQ(level.counters.sessions.value(), 1u);
  remove();
  EXPECT_EQ(level.counters.sessions.value(), 0u);
}

/// Its class has turns, by the weight of its TVLs.
TEST_F(Sessions, WorkOfItsClassHasItsTurnsByWeight) {
  tvls.attach(*tvls.add({.tenant = other.id,
                         .qos_class = other.qos_class,
                         .weight = 3,
                         .max_kick_list = 8,
                         .execution_guaranteed = 1,
                         .completion_guaranteed = 1}));
  install();
  PairOf mine{tenant, 10}, theirs{other, 11};
  EXPECT_NEAR(turns_of_second(mine, theirs), 300, 10);
}

TEST_F(Sessions, EventsOfWhoGoesAreForgotten) {
  install();
  sink.full = true;
  async_events.raise(coming, 5, EventType::kPortActive);
  remove();
  sink.full = false;
  clock.now += EventRetry::kLongest;
  async_events.retry();
  EXPECT_TRUE(sink.async.empty());
}

}  // namespace
}  // namespace softhca::engine
