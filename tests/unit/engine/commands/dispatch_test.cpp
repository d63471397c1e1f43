// SPDX-License-Identifier: Apache-2.0

// From send queues to PCBs and from PCBs to their transport, without an engine.
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class DispatchTest : public Parts {
 protected:
  DispatchTest() {
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      const abi::CommandHeader header = command(i);
      std::memcpy(qp.slot(i), &header, sizeof header);
    }
  }
  void ring(std::uint32_t sequence_end) {
    ASSERT_EQ(scheduler.ring(schedule::QpSlot(qp.qp.slot), sequence_end),
              schedule::RingVerdict::kAccepted);
  }
  /// Allocates all PCBs that are not dedicated.
  std::vector<PcbId> use_up() {
    std::vector<PcbId> taken;
    while (const auto pcb = pcbs.allocate(tenant.qos_class)) taken.push_back(*pcb);
    return taken;
  }
  std::uint32_t sequence(PcbId pcb) { return pcbs.pcb(pcb).header.sequence; }
};

TEST_F(DispatchTest, CommandsAreFetchedInOrderAndStartWithCredits) {
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 2u);
  EXPECT_EQ(qp.qp.sq.commands, 2u);
  EXPECT_EQ(qp.qp.sq.dedicated, 0u) << "while there are ordinary PCBs";
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto pcb = dispatch.next();
    ASSERT_TRUE(pcb);
    EXPECT_EQ(sequence(*pcb), i);
    EXPECT_TRUE(commands[*pcb].execution_held);
    EXPECT_EQ(tvls[tvl].execution.in_use.value(), i + 1);
  }
  EXPECT_FALSE(dispatch.next());
  EXPECT_TRUE(qp.qp.sq.kicked.empty());
}

TEST_F(DispatchTest, OrdinaryPcbsFirst) {
  ring(kPcbs);
  EXPECT_EQ(dispatch.fetch(), kPcbs);
  EXPECT_EQ(pcbs_in_use(), kPcbs) << "its own, then the shared ones";
  EXPECT_EQ(qp.qp.sq.dedicated, 0u);
}

TEST_F(DispatchTest, NoMoreThanThereAreDedicatedPcbsWhenThoseAreUsedUp) {
  const auto others = use_up();
  ring(kDedicated + 2);
  EXPECT_EQ(dispatch.fetch(), kDedicated - 1) << "the last is for queue pairs that hold none";
  EXPECT_EQ(qp.qp.sq.dedicated, kDedicated - 1);
  EXPECT_EQ(dispatch.fetch(), 0u);
  const auto pcb = dispatch.next();
  ASSERT_TRUE(pcb);
  commands.release(*pcb);
  EXPECT_EQ(dispatch.fetch(), 1u);
}

// They stand in two kick lists, which start independently of each other.
TEST_F(DispatchTest, ACommandTakesADedicatedPcbWhenThoseBeforeItHaveStarted) {
  qp.qp.sq.dedicated_tvl = add_tvl(schedule::TvlPurpose::kDedicated);
  schedule::TvlTerms four{.tenant = tenant.id, .qos_class = tenant.qos_class};
  four.max_kick_list = 8;
  four.execution_guaranteed = four.completion_guaranteed = 4;
  four.may_share = false;
  ASSERT_TRUE(tvls.change(tvl, four));
  ring(kPcbs + 1);
  EXPECT_EQ(dispatch.fetch(), kPcbs);
  std::vector<PcbId> started;
  for (int i = 0; i < 4; ++i) started.push_back(*dispatch.next());
  EXPECT_FALSE(dispatch.next()) << "as many as there are credits";
  EXPECT_EQ(dispatch.fetch(), 0u);
  for (const PcbId pcb : started) commands.return_execution(pcb);
  for (const PcbId pcb : started) arbitrator.return_completion(commands[pcb].tvl);
  for (const PcbId pcb : started) commands[pcb].completion_held = false;
  while (dispatch.next()) {
  }
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_EQ(qp.qp.sq.dedicated, 1u);
  EXPECT_EQ(sequence(*dispatch.next()), kPcbs);
}

// Those in VCBs may fill it again and again.
TEST_F(DispatchTest, AFullKickListIsNoObstacle) {
  schedule::TvlTerms one{.tenant = tenant.id, .qos_class = tenant.qos_class};
  one.max_kick_list = 1;
  one.execution_guaranteed = one.completion_guaranteed = 4;
  ASSERT_TRUE(tvls.change(tvl, one));
  ASSERT_TRUE(arbitrator.kick(tvl, *pcbs.allocate(tenant.qos_class)));
  qp.qp.sq.dedicated_tvl = add_tvl(schedule::TvlPurpose::kDedicated);
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 2u);
  EXPECT_EQ(qp.qp.sq.dedicated, 2u);
}

TEST_F(DispatchTest, NoMoreAreFetchedAheadThanMayStartSoon) {
  schedule::TvlTerms long_list{.tenant = tenant.id, .qos_class = tenant.qos_class};
  long_list.max_kick_list = 100;
  long_list.execution_guaranteed = long_list.completion_guaranteed = 4;
  ASSERT_TRUE(tvls.change(tvl, long_list));
  for (std::uint32_t i = 0; i < schedule::FetchAhead::kMost; ++i)
    commands.fetched(qp.qp, PcbId(0), tvl);
  ring(1);
  EXPECT_EQ(dispatch.fetch(), 0u);
  EXPECT_TRUE(commands.ahead().waits(schedule::QpSlot(qp.qp.slot)));
  EXPECT_EQ(dispatch.fetch(), 0u);
  for (std::uint32_t i = 0; i < schedule::FetchAhead::kMost / 2; ++i)
    commands.left_kick_list(PcbId(0), tvl);
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_FALSE(commands.ahead().waits(schedule::QpSlot(qp.qp.slot)));
}

// Mechanism A2: no way round a hard cap.
TEST_F(DispatchTest, AHardCapHoldsForDoorbellsToo) {
  ASSERT_TRUE(pcbs.set_may_share(tenant.qos_class, false));
  ring(kPcbs);
  EXPECT_EQ(dispatch.fetch(), 4u);
  EXPECT_EQ(dispatch.fetch(), 0u);
  commands.release(*dispatch.next());
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_EQ(qp.qp.sq.dedicated, 0u);
}

TEST_F(DispatchTest, NoMoreThanThereAreCredits) {
  ring(3);
  dispatch.fetch();
  schedule::TvlTerms one{.tenant = tenant.id};
  one.max_kick_list = 8;
  one.execution_guaranteed = 1;
  one.completion_guaranteed = 4;
  one.may_share = false;
  ASSERT_TRUE(tvls.change(tvl, one));
  arbitrator.refresh();
  const auto first = dispatch.next();
  ASSERT_TRUE(first);
  EXPECT_FALSE(dispatch.next());
  commands.return_execution(*first);
  EXPECT_TRUE(dispatch.next());
}

TEST_F(DispatchTest, AStalledQueuePairIsPassedOver) {
  qp.qp.sq.stalled = true;
  ring(1);
  EXPECT_EQ(dispatch.fetch(), 0u);
  qp.qp.sq.stalled = false;
  scheduler.unblock(schedule::QpSlot(qp.qp.slot));
  EXPECT_EQ(dispatch.fetch(), 1u);
}

TEST_F(DispatchTest, AProbingOneHasOneCommandAtATime) {
  qp.qp.sq.probing = true;
  ring(3);
  EXPECT_EQ(dispatch.fetch(), 1u);
}

TEST_F(DispatchTest, WhileDrainingOnlyWhatHasBegunIsFetched) {
  qp.qp.state = QpState::kSqd;
  qp.qp.sq.not_begun = 1;
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 1u);
}

// The first command uses the rate up; the second waits in the send queue, and holds no PCB.
TEST_F(DispatchTest, ARateHoldsATenant) {
  rates.set(tenant.rate, {.messages_per_second = 1000, .burst_messages = 1});
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_EQ(dispatch.fetch(), 0u);
  EXPECT_FALSE(scheduler.has_work());
  clock.now = rates.next_release();
  rates.release([this](QosClassId id) { scheduler.unblock_class(id); }, [](std::uint32_t) {});
  EXPECT_EQ(dispatch.fetch(), 1u);
  rates.forget(tenant.rate);
}

TEST_F(DispatchTest, ARateHoldsAQueuePair) {
  qp.qp.sq.rates = std::make_unique<QpRates>();
  rates.set(qp.qp.sq.rates->sent, {.messages_per_second = 1000, .burst_messages = 1});
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_EQ(dispatch.fetch(), 0u);
  EXPECT_FALSE(scheduler.has_work());
  clock.now = rates.next_release();
  rates.release([](QosClassId) {},
                [this](std::uint32_t slot) { scheduler.unblock(schedule::QpSlot(slot)); });
  EXPECT_EQ(dispatch.fetch(), 1u);
}

// The numbers in the shared memory are the tenant's claims.
TEST_F(DispatchTest, NumbersAreThoseOfTheSendQueue) {
  abi::CommandHeader lie = command(9);
  lie.qpn = 0xdead;
  std::memcpy(qp.slot(0), &lie, sizeof lie);
  ring(1);
  dispatch.fetch();
  const auto pcb = dispatch.next();
  ASSERT_TRUE(pcb);
  EXPECT_EQ(sequence(*pcb), 0u);
  EXPECT_EQ(pcbs.pcb(*pcb).header.qpn, qp.qp.qpn.value);
}

TEST_F(DispatchTest, APayloadThatCannotBeIsRefusedInItsTurn) {
  abi::CommandHeader bad = command(0);
  bad.payload_bytes = 0xffff;
  std::memcpy(qp.slot(0), &bad, sizeof bad);
  ring(1);
  EXPECT_EQ(dispatch.fetch(), 1u);
  const auto pcb = dispatch.next();
  ASSERT_TRUE(pcb);
  EXPECT_EQ(pcbs.pcb(*pcb).header.opcode, 0xff);
}

}  // namespace
}  // namespace softhca::engine
