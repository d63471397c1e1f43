// From send queues to PCBs and from PCBs to their transport, without an engine.
#include "tests/unit/engine/parts.hpp"

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
  std::uint32_t sequence(PcbId pcb) { return pcbs.pcb(pcb).header.sequence; }
};

TEST_F(DispatchTest, CommandsAreFetchedInOrderAndStartWithCredits) {
  ring(2);
  EXPECT_EQ(dispatch.fetch(), 2u);
  EXPECT_EQ(qp.qp.sq.fetched, 2u);
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

TEST_F(DispatchTest, NoMoreThanThereAreDedicatedPcbs) {
  ring(kDedicated + 2);
  EXPECT_EQ(dispatch.fetch(), kDedicated - 1) << "the last is for queue pairs that hold none";
  EXPECT_EQ(dispatch.fetch(), 0u);
  const auto pcb = dispatch.next();
  ASSERT_TRUE(pcb);
  commands.release(*pcb);
  EXPECT_EQ(dispatch.fetch(), 1u);
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

TEST_F(DispatchTest, AThrottledTenantKeepsItsCommands) {
  tenant.throttled_since = clock.now;
  ring(1);
  EXPECT_EQ(dispatch.fetch(), 0u);
  tenant.throttled_since = kNever;
  scheduler.unblock_class(qp.qp.qos_class);
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
