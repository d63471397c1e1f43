// SPDX-License-Identifier: Apache-2.0

// How commands begin and end, without an engine.
#include "daemon/engine/queue_pairs/command_execution.hpp"

#include "tests/unit/engine/fixture/qp_parts.hpp"

namespace softhca::engine {
namespace {

/// Two queue pairs of this daemon, of which one writes into memory of the other.
class Execution : public QpParts {
 protected:
  Execution() { connect(near, peer); }

  Work write() {
    return {.opcode = abi::Opcode::kRdmaWrite,
            .sge = {buffer.part(0, 8)},
            .remote_addr = buffer.addr() + 64,
            .rkey = buffer.key};
  }
  Work unsignaled() {
    Work work = write();
    work.flags = 0;
    return work;
  }
  static Work nonsense() { return {.opcode = static_cast<abi::Opcode>(0x55)}; }
  std::uint64_t done() const { return tenant.counters.command_engine_time.count(); }

  Buffer& buffer = make_buffer(128);
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
};

TEST_F(Execution, CommandsBeginWithTheirCreditsAndCompleteInOrder) {
  kick(near, write());
  kick(near, write());
  EXPECT_EQ(under_way(near), 0u);
  EXPECT_EQ(execution.start_commands(), 2u);
  EXPECT_EQ(under_way(near), 2u);
  EXPECT_EQ(tenant.counters.commands_vcb.value(), 2u);
  expect_nothing();
  deliver(near);
  for (const std::uint32_t index : {0u, 1u}) expect_completion(index, Status::kSuccess);
  EXPECT_EQ(held_by(near), 0u);
}

TEST_F(Execution, CommandsAreCountedByTheWayTheyCameAndForTheirLevel) {
  Level level;
  session.level = &level;
  post(near, write());
  write_command(near, write());
  ring(near);
  EXPECT_EQ(dispatch.fetch(), 1u);
  execution.start_commands();
  EXPECT_EQ(level.counters.commands_vcb.value(), 1u);
  EXPECT_EQ(level.counters.commands_doorbell.value(), 1u);
  EXPECT_EQ(tenant.counters.commands_doorbell.value(), 1u);
  session.level = nullptr;
}

/// IBA 10.8.3.
TEST_F(Execution, ACommandThatCannotBeExecutedFailsAfterThoseBeforeIt) {
  kick(near, write());
  kick(near, nonsense());
  kick(near, write());
  EXPECT_EQ(execution.start_commands(), 3u);
  EXPECT_EQ(under_way(near), 1u);
  expect_nothing();
  deliver(near);
  expect_completion(0, Status::kSuccess);
  expect_completion(1, Status::kLocalQpOperationError);
  expect_nothing();
  EXPECT_TRUE(about_to_fail(near));
  EXPECT_EQ(under_way(near), 0u) << "nothing begins on the way to the error state";
  EXPECT_EQ(tenant.counters.refused.malformed_commands.value(), 1u);
}

/// IBA 10.8.3.3, and more.
TEST_F(Execution, AWindowCommandWaitsForThoseBeforeItAndThoseBehindForIt) {
  memory::Window* const window = *region_access.windows().insert(kPd, false);
  kick(near, write());
  const Work bind{.opcode = abi::Opcode::kBindWindow, .rkey = window->key ^ 1};
  kick(near, bind);
  kick(near, write());
  const std::uint32_t before = window->key;
  execution.start_commands();
  EXPECT_EQ(under_way(near), 1u);
  EXPECT_EQ(held_by(near), 3u);
  EXPECT_EQ(window->key, before);
  deliver(near);
  EXPECT_EQ(window->key, before ^ 1);
  expect_completion(0, Status::kSuccess);
  expect_completion(1, Status::kSuccess);
  expect_completion(2, Status::kSuccess);
}

TEST_F(Execution, AWindowCommandThatFailsEndsItsQueuePair) {
  post(near, {.opcode = abi::Opcode::kLocalInvalidate, .rkey = 0x12345678});
  expect_completion(0, Status::kLocalQpOperationError);
  EXPECT_TRUE(about_to_fail(near));
}

TEST_F(Execution, ATornWindowCommandDoesNothing) {
  memory::Window* const window = *region_access.windows().insert(kPd, false);
  const std::uint32_t before = window->key;
  const PcbId pcb = kick(near, {.opcode = abi::Opcode::kBindWindow, .rkey = before ^ 1});
  pcbs.pcb(pcb).header.checksum = 0x1234;
  execution.start_commands();
  expect_completion(0, Status::kLocalQpOperationError);
  EXPECT_EQ(window->key, before);
  EXPECT_EQ(tenant.counters.refused.bad_checksums.value(), 1u);
}

TEST_F(Execution, MoreThanTheSendQueueHoldsIsAFatalEvent) {
  TestQp& small = make_qp({.send_entries = 2});
  connect(small, make_qp());
  for (int i = 0; i < 2; ++i) post(small, write());
  EXPECT_EQ(raised(EventType::kQpFatal, small), 0u);
  post(small, write());
  EXPECT_EQ(raised(EventType::kQpFatal, small), 1u);
  EXPECT_EQ(tenant.counters.refused.hostile_memory.value(), 1u);
  EXPECT_TRUE(about_to_fail(small));
  EXPECT_EQ(under_way(small), 2u);
}

TEST_F(Execution, SuccessIsToldWhoAskedForItAndFailureToAll) {
  post(near, unsignaled());
  deliver(near);
  expect_nothing();
  EXPECT_EQ(done(), 1u);
  TestQp& all = make_qp({.signal_all = true});
  connect(all, make_qp());
  post(all, unsignaled());
  deliver(all);
  expect_completion(0, Status::kSuccess);
  Work failing = nonsense();
  failing.flags = 0;
  post(near, failing);
  expect_completion(1, Status::kLocalQpOperationError);
  EXPECT_EQ(done(), 2u) << "of successes alone";
}

TEST_F(Execution, InTheErrorStateCommandsAreFlushed) {
  lifecycle.enter_error(near.qp);
  post(near, write());
  expect_completion(0, Status::kFlushError);
  EXPECT_FALSE(about_to_fail(near)) << "it has failed";
  EXPECT_EQ(held_by(near), 0u);
}

TEST_F(Execution, NothingBeginsOnTheWayToTheErrorState) {
  cpu.fail_later(near.qp, QpFailure::kFatal);
  post(near, write());
  EXPECT_EQ(under_way(near), 0u);
  EXPECT_EQ(held_by(near), 1u);
  lifecycle.enter_error(near.qp);
  expect_completion(0, Status::kFlushError);
}

TEST_F(Execution, DrainedIsToldOnceWhenAllIsComplete) {
  post(near, write());
  lifecycle.enter_drain(near.qp, true);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, near), 0u);
  deliver(near);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, near), 1u);
  execution.report_drained(near.qp);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, near), 1u);
}

TEST_F(Execution, WhatIsIdleHasDrainedAtOnceAndIsToldIfItAsked) {
  lifecycle.enter_drain(near.qp, true);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, near), 1u);
  lifecycle.enter_drain(peer.qp, false);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, peer), 0u);
}

/// It had begun, so its program expects it to end before that.
TEST_F(Execution, WhatWasGivenBackIsToDrainToo) {
  post(near, {.sge = {buffer.part(0, 8)}});  // a send, for which the peer has no receive
  deliver_in_vain(near);
  stall.stall(near.qp);
  ASSERT_EQ(held_by(near), 0u);
  lifecycle.enter_drain(near.qp, true);
  EXPECT_EQ(raised(EventType::kSendQueueDrained, near), 0u);
}

}  // namespace
}  // namespace softhca::engine
