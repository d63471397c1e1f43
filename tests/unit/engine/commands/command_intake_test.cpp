// SPDX-License-Identifier: Apache-2.0

// How commands come in, without an engine.
#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class CommandIntakeTest : public Parts {
 protected:
  bool failed() const { return qp.qp.error.pending; }
  /// Until what is not finished rests.
  void rest() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(intake.collect(), 0u);
      clock.now += UnfinishedVcbs::kGeneration;
    }
    EXPECT_EQ(intake.collect(), 0u);
  }
};

TEST_F(CommandIntakeTest, ACommandInAVcbWaitsForItsCreditsAndTheVcbIsFree) {
  hand_over(1, command(0));
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_TRUE(is_free(1));
  EXPECT_EQ(qp.qp.sq.commands, 1u);
  EXPECT_EQ(arbitrator.counters(tvl).waiting.value(), 1u);
  EXPECT_EQ(intake.collect(), 0u);
}

TEST_F(CommandIntakeTest, OneInPiecesIsTakenInWhenItIsWhole) {
  hand_over(0, command(0), 0b1);
  EXPECT_EQ(intake.collect(), 0u);
  EXPECT_FALSE(is_free(0));
  EXPECT_EQ(pcbs_in_use(), 1u);
  page(0).scoreboard.store(abi::kAllSegments);
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_TRUE(is_free(0));
}

TEST_F(CommandIntakeTest, OneThatIsNotFinishedIsLookedAtLessOften) {
  hand_over(0, command(0), 0b1);
  rest();
  page(0).scoreboard.store(abi::kAllSegments);
  EXPECT_EQ(intake.collect(), 0u) << "it is looked at again later";
  clock.now += std::chrono::milliseconds(1);
  EXPECT_EQ(intake.collect(), 1u);
}

/// Others of the session are taken in as they come.
TEST_F(CommandIntakeTest, OneThatIsNotFinishedHoldsUpNoOther) {
  hand_over(0, command(1), 0b1);
  rest();
  hand_over(1, command(0), 0b1);
  EXPECT_EQ(intake.collect(), 0u);
  page(1).scoreboard.store(abi::kAllSegments);
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_TRUE(is_free(1));
}

TEST_F(CommandIntakeTest, OneThatIsWithdrawnLeavesNothing) {
  hand_over(0, command(0), 0b1);
  intake.collect();
  ASSERT_EQ(pcbs_in_use(), 1u);
  page(0).scoreboard.store(abi::kWithdrawn);
  intake.collect();
  EXPECT_TRUE(is_free(0));
  EXPECT_EQ(pcbs_in_use(), 0u);
  hand_over(0, command(0), abi::kWithdrawn | abi::kAllSegments);  // never seen before
  intake.collect();
  EXPECT_TRUE(is_free(0));
  EXPECT_EQ(qp.qp.sq.commands, 0u);
  EXPECT_EQ(tenant.counters.collect.withdrawn.value(), 2u);
  // Nothing of it is taken for the next one's.
  hand_over(0, command(0), abi::kAllSegments & ~std::uint64_t{1});
  EXPECT_EQ(intake.collect(), 0u);
}

TEST_F(CommandIntakeTest, KicksAreCounted) {
  const auto kicked = [&](Kick kick) { return tenant.counters.collect.kicked(kick).value(); };
  hand_over(0, command(0));
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_EQ(kicked(Kick::kWhole), 1u);
  hand_over(0, command(1), abi::kVirtualKick | 0b10);
  EXPECT_EQ(intake.collect(), 0u);
  page(0).scoreboard.store(abi::kVirtualKick | abi::kAllSegments);
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_EQ(kicked(Kick::kVirtual), 1u);
  hand_over(0, command(2), abi::kExplicitKick | 0b11);
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_EQ(kicked(Kick::kExplicit), 1u);
}

TEST_F(CommandIntakeTest, OneOutOfTurnBecomesADoorbell) {
  hand_over(0, command(3));
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_EQ(pcbs_in_use(), 0u);
  EXPECT_EQ(tenant.counters.send_queue_mode.value(), 1u);
  const auto turn = scheduler.next();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->sequence, 0u);
}

TEST_F(CommandIntakeTest, OneWithoutAPcbBecomesADoorbell) {
  while (pcbs.allocate(tenant.qos_class)) continue;
  hand_over(0, command(0));
  EXPECT_EQ(intake.collect(), 1u);
  EXPECT_TRUE(is_free(0));
  EXPECT_TRUE(scheduler.next());
}

TEST_F(CommandIntakeTest, CommandsForNobodysQueuePairAreCountedAndPaidFor) {
  abi::CommandHeader foreign = command(0);
  foreign.qpn = 0x1234;
  hand_over(0, foreign);
  ring(0x1234, 1);
  const std::uint64_t before = cpu.done();
  intake.collect();
  EXPECT_EQ(tenant.counters.refused.malformed_commands.value(), 2u);
  EXPECT_EQ(pcbs_in_use(), 0u);
  EXPECT_GE(cpu.done() - before, 2 * kDoorbellCost);
  EXPECT_FALSE(scheduler.next());
}

TEST_F(CommandIntakeTest, ADoorbellThatCannotBeFailsItsQueuePairInItsTurn) {
  ring(qp.qp.qpn.value, 1000);
  intake.collect();
  EXPECT_TRUE(failed());
  EXPECT_TRUE(cpu.has_work());
  EXPECT_EQ(event_log.count(), 1u);
  ring(qp.qp.qpn.value, 1000);
  intake.collect();
  EXPECT_EQ(event_log.count(), 1u) << "once";
  EXPECT_EQ(tenant.counters.refused.hostile_memory.value(), 2u);
}

TEST_F(CommandIntakeTest, ASessionThatContradictsItselfIsNotReadAnyMore) {
  header().doorbell_producer.store(abi::kDoorbellEntries + 1);
  intake.collect();
  EXPECT_TRUE(session.failed);
  EXPECT_EQ(cpu.failing.front(), &session) << "its queue pairs are looked through";
  hand_over(0, command(0));
  EXPECT_EQ(intake.collect(), 0u);
  EXPECT_FALSE(is_free(0));
}

TEST_F(CommandIntakeTest, AThrottledTenantKeepsItsCommands) {
  tenant.rate.closed_since = clock.now;
  hand_over(0, command(0));
  EXPECT_EQ(intake.collect(), 0u);
  EXPECT_FALSE(is_free(0));
  tenant.rate.closed_since = kNever;
  EXPECT_EQ(intake.collect(), 1u);
}

// The rate of a queue pair leaves the VCB to others: the command waits in its send queue.
TEST_F(CommandIntakeTest, ACommandThatWaitsForARateBecomesADoorbell) {
  qp.qp.sq.rates = std::make_unique<QpRates>();
  rates.set(qp.qp.sq.rates->sent, {.messages_per_second = 1000, .burst_messages = 1});
  hand_over(0, command(0));
  hand_over(1, command(1));
  EXPECT_EQ(intake.collect(), 2u);
  EXPECT_TRUE(is_free(1));
  EXPECT_EQ(pcbs_in_use(), 1u);
  EXPECT_EQ(scheduler.pending(schedule::QpSlot(qp.qp.slot)), 1u);
  EXPECT_EQ(
      tenant.counters.send_queue_cause[static_cast<std::size_t>(SendQueueCause::kRate)].value(),
      1u);
}

// The rate limit of a tenant: the engine collects only as many commands as the burst allows.
TEST_F(CommandIntakeTest, VcbsStayWhereTheyAreWhenTheRateOfTheTenantIsUsedUp) {
  rates.set(tenant.rate, {.messages_per_second = 1000, .burst_messages = 2});
  for (std::uint32_t i = 0; i < 4; ++i) hand_over(i, command(i));
  EXPECT_EQ(intake.collect(), 2u);
  EXPECT_FALSE(is_free(2));
  EXPECT_EQ(pcbs_in_use(), 2u);
  rates.forget(tenant.rate);
}

TEST_F(CommandIntakeTest, DoorbellsAreCountedByCause) {
  const auto rung = [&](abi::DoorbellCause cause) {
    return tenant.counters.doorbells[static_cast<std::size_t>(cause)].value();
  };
  for (const std::uint32_t cause : {1u, 2u, 2u, 0u, 200u})
    ring(qp.qp.qpn.value | cause << abi::kDoorbellCauseShift, 1);
  EXPECT_EQ(intake.collect(), 5u);
  EXPECT_EQ(rung(abi::DoorbellCause::kNoVcb), 1u);
  EXPECT_EQ(rung(abi::DoorbellCause::kChain), 2u);
  EXPECT_EQ(rung(abi::DoorbellCause::kOther), 2u) << "a cause that is not known";
  EXPECT_EQ(tenant.counters.refused.malformed_commands.value(), 0u);
}

TEST_F(CommandIntakeTest, AParkedSessionIsNotPolledUntilItSaysSo) {
  ASSERT_TRUE(intake.park(session));
  EXPECT_EQ(intake.parked(), 1u);
  hand_over(0, command(0));
  EXPECT_EQ(intake.collect(), 0u);
  intake.unpark(session);
  EXPECT_EQ(intake.parked(), 0u);
  EXPECT_EQ(intake.collect(), 1u);
}

TEST_F(CommandIntakeTest, ASessionThatHasPostedIsNotParked) {
  hand_over(0, command(0));
  EXPECT_FALSE(intake.park(session));
}

TEST_F(CommandIntakeTest, ARemovedSessionLeavesNoPcb) {
  hand_over(0, command(0), 0b1);
  intake.collect();
  ASSERT_FALSE(intake.park(session)) << "it is being written";
  rest();
  ASSERT_TRUE(intake.park(session));
  intake.remove(session);
  EXPECT_EQ(pcbs_in_use(), 0u);
  EXPECT_EQ(intake.parked(), 0u);
  EXPECT_TRUE(intake.sessions().empty());
}

TEST_F(CommandIntakeTest, CommandsOfOthersAreWaitedForNotOnesOwn) {
  ring(qp.qp.qpn.value, 1);
  EXPECT_FALSE(intake.commands_wait(tenant.qos_class));
  EXPECT_TRUE(intake.commands_wait(QosClassId(7)));
  EXPECT_TRUE(intake.has_work());
}

TEST_F(CommandIntakeTest, ABorrowedPcbIsTakenFromAHalfWrittenCommand) {
  ASSERT_TRUE(pcbs.set_guarantee(tenant.qos_class, 0));
  hand_over(0, command(0), 0b1);
  intake.collect();
  ASSERT_EQ(pcbs_in_use(), 1u);
  intake.give_back_borrowed();
  EXPECT_EQ(pcbs_in_use(), 0u);
  page(0).scoreboard.store(abi::kAllSegments);
  clock.now += std::chrono::milliseconds(1);
  EXPECT_EQ(intake.collect(), 1u) << "the VCB still holds all of it";
}

}  // namespace
}  // namespace softhca::engine
