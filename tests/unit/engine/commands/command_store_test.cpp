// SPDX-License-Identifier: Apache-2.0

// Commands and what they hold, without an engine: whatever way one ends, all of it goes back.
#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class Commands : public Parts {
 protected:
  /// A command that waits for credits, in a PCB of the group or a dedicated one.
  PcbId kick(bool dedicated = false) {
    const PcbId pcb =
        dedicated ? *pcbs.allocate_dedicated(tenant.qos_class) : *pcbs.allocate(tenant.qos_class);
    EXPECT_TRUE(arbitrator.kick(tvl, pcb));
    commands.prepare(qp, pcb);
    if (dedicated) commands.fetched(qp, pcb, tvl);
    return pcb;
  }
  /// Its turn comes.
  PcbId start() {
    const auto next = arbitrator.next();
    EXPECT_TRUE(next);
    CommandContext& command = commands[next->pcb];
    command.tvl = next->tvl;
    command.execution_held = command.completion_held = true;
    commands.remove_kicked(qp, next->pcb);
    commands.left_kick_list(next->pcb, next->tvl);
    ++qp.sq.started;
    return next->pcb;
  }
  void expect_nothing_held() {
    EXPECT_EQ(qp.sq.commands, 0u);
    EXPECT_EQ(qp.sq.dedicated, 0u);
    EXPECT_EQ(pcbs.group(tenant.qos_class).all_in_use.value(), 0u);
    EXPECT_EQ(pcbs.group(tenant.qos_class).dedicated_in_use.value(), 0u);
    EXPECT_EQ(tvls[tvl].execution.in_use.value(), 0u);
    EXPECT_EQ(tvls[tvl].completion.in_use.value(), 0u);
    EXPECT_EQ(arbitrator.counters(tvl).waiting.value(), 0u);
    EXPECT_EQ(commands.free_dedicated(qp.qos_class), pcbs.dedicated_limit(qp.qos_class));
  }

  QueuePair& qp = Parts::qp.qp;
};

TEST_F(Commands, KnowWhoseTheyAreAndArePaidFor) {
  const std::uint64_t before = cpu.done();
  const PcbId pcb = kick();
  EXPECT_EQ(cpu.done() - before, kCommandCost);
  EXPECT_EQ(&commands.owner(pcb), &qp);
  EXPECT_EQ(qp.sq.commands, 1u);
  EXPECT_FALSE(commands.is_dedicated(pcb));
}

TEST_F(Commands, GiveBackAllThatTheyHold) {
  for (const bool dedicated : {false, true})
    for (const bool sent : {false, true}) {
      kick(dedicated);
      const PcbId pcb = start();
      EXPECT_EQ(tvls[tvl].execution.in_use.value(), 1u);
      EXPECT_EQ(tvls[tvl].completion.in_use.value(), 1u);
      if (sent) {
        commands.return_execution(pcb);
        EXPECT_EQ(tvls[tvl].execution.in_use.value(), 0u);
        EXPECT_EQ(tvls[tvl].completion.in_use.value(), 1u);
        commands.return_execution(pcb);
        EXPECT_EQ(tvls[tvl].execution.in_use.value(), 0u) << "once";
      }
      commands.release(pcb);
      expect_nothing_held();
    }
}

TEST_F(Commands, AreHeldInOrder) {
  for (int i = 0; i < 3; ++i) kick();
  const PcbId first = start(), second = start(), third = start();
  commands.hold(qp, second);
  commands.hold(qp, third);
  commands.hold_first(qp, first);
  for (const PcbId pcb : {first, second, third}) {
    EXPECT_EQ(commands.pop_held(qp), pcb);
    commands.release(pcb);
  }
  EXPECT_TRUE(qp.sq.held.empty());
  expect_nothing_held();
}

TEST_F(Commands, ThatWaitForCreditsAreTakenOutOfTheKickList) {
  const PcbId first = kick(), second = kick();
  EXPECT_EQ(commands.pop_kicked(qp), first);
  commands.release(first);
  EXPECT_EQ(start(), second);
  commands.release(second);
  expect_nothing_held();
}

/// Kicked, held, under way, and known to a transport alone.
TEST_F(Commands, AllOfAQueuePairEndAtOnce) {
  for (int i = 0; i < 4; ++i) kick(i % 2 == 1);
  transport::RequestTable requests(pcbs.size());
  transport::Ud& ud = qp.transport.emplace<transport::Ud>();
  ud.open(requests, 16);
  transport::Request request;
  request.pcb = start();
  ud.start(request);
  commands.hold(qp, start());
  start();
  commands.wait_for_room(qp, tvl);
  commands.release_all(qp);
  EXPECT_EQ(qp.sq.started, 0u);
  EXPECT_FALSE(commands.ahead().waits(schedule::QpSlot(qp.slot)));
  expect_nothing_held();
}

TEST_F(Commands, AClassWhoseQueuePairsWaitForRoomHasMore) {
  EXPECT_FALSE(commands.has_more(qp.qos_class));
  ASSERT_EQ(scheduler.ring(schedule::QpSlot(qp.slot), 4), schedule::RingVerdict::kAccepted);
  EXPECT_TRUE(commands.has_more(qp.qos_class));
  commands.wait_for_room(qp, tvl);
  EXPECT_FALSE(scheduler.has_work(qp.qos_class));
  EXPECT_TRUE(commands.has_more(qp.qos_class));
}

TEST_F(Commands, ReleasedDedicatedPcbGivesTurnsToThoseWhoFoundNone) {
  const schedule::QpSlot slot(qp.slot);
  ASSERT_EQ(scheduler.ring(slot, 4), schedule::RingVerdict::kAccepted);
  kick(true);
  const PcbId pcb = start();
  ASSERT_TRUE(scheduler.next());
  scheduler.block_class(qp.qos_class);
  commands.found_none(qp.qos_class);
  EXPECT_FALSE(scheduler.next());
  commands.release(pcb);
  EXPECT_TRUE(scheduler.next());
}

TEST_F(Commands, DedicatedPcbsAreCountedWhileTheyWait) {
  while (commands.free_dedicated(qp.qos_class) != 0) {
    kick(true);
    commands.return_execution(start());
  }
  EXPECT_EQ(commands.free_dedicated(qp.qos_class), 0u);
  commands.release_all(qp);
  expect_nothing_held();
  EXPECT_EQ(commands.free_dedicated(qp.qos_class), pcbs.dedicated_limit(qp.qos_class));
}

/// All dedicated PCBs wait: a doorbell stays only while there is an ordinary one for its commands.
TEST_F(Commands, AJamOfDedicatedPcbsIsNoneWhileThereAreOrdinaryOnes) {
  ASSERT_EQ(scheduler.ring(schedule::QpSlot(qp.slot), 4), schedule::RingVerdict::kAccepted);
  const auto overflows = [&] {
    commands.watch_jammed();
    while (scheduler.relieve().kind != schedule::Relief::Kind::kNone) {
    }
    return scheduler.overflowed(schedule::QpSlot(qp.slot));
  };
  while (commands.free_dedicated(qp.qos_class) != 0) {
    kick(true);
    commands.return_execution(start());
  }
  EXPECT_FALSE(overflows());
  std::vector<PcbId> ordinary;
  while (const auto pcb = pcbs.allocate(tenant.qos_class)) ordinary.push_back(*pcb);
  EXPECT_TRUE(overflows());
  pcbs.free(ordinary.back());
  EXPECT_FALSE(overflows());
  for (ordinary.pop_back(); !ordinary.empty(); ordinary.pop_back()) pcbs.free(ordinary.back());
  commands.release_all(qp);
  expect_nothing_held();
}

}  // namespace
}  // namespace softhca::engine
