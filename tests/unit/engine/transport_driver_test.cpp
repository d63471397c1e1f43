// SPDX-License-Identifier: Apache-2.0

// Queue pairs in their turns, their packets and timers, without an engine.
#include "daemon/engine/transport_driver.hpp"

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/datagram_parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using transport::Count;

class Driver : public DatagramParts {
 protected:
  Work send() { return {.sge = {buffer.part(0, 8)}}; }
  /// Time passes, with what is due in it.
  std::size_t pass(Duration duration) {
    std::size_t expired = 0;
    for (const Time end = clock.now + duration; clock.now < end;) {
      clock.now += duration / 16;
      expired += driver.expire();
      run();
    }
    return expired;
  }
  bool is_armed(const TestQp& test) { return lifecycle.timers().armed(TimerId(test.qp.slot)); }

  Buffer& buffer = make_buffer(64);
};

TEST_F(Driver, QueuePairsWithWorkHaveTheirTurns) {
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
  connect(near, peer);
  EXPECT_EQ(driver.run_ready(), 2u) << "both have just come";
  EXPECT_EQ(driver.run_ready(), 0u);
  post_receive(peer, buffer);
  post(near, send());
  const std::uint64_t before = tenant.counters.engine_time.value();
  EXPECT_EQ(driver.run_ready(), 1u);
  EXPECT_EQ(cq.poll_all().size(), 2u);
  EXPECT_GE(tenant.counters.engine_time.value() - before, kRunCost + kLocalMessageCost);
}

TEST_F(Driver, NamesTheQueuePairThatItWorksOn) {
  Pulse pulse{};
  clock.pulse = &pulse;
  far.introduce();
  TestQp& test = make_connected();
  const Subject named(Subject::Kind::kQueuePair, test.qp.qpn.value);
  run();
  EXPECT_EQ(pulse.subject.load(), named.word()) << "in its turn";
  post(test, send());
  run();
  pulse.work_on({});
  pass(milliseconds(100));
  EXPECT_EQ(pulse.subject.load(), named.word()) << "when its timer is due";
  pulse.work_on({});
  wire::Headers ack;
  ack.opcode = wire::raw(wire::Opcode::kRcAck);
  wire::ParsedFrame frame;
  frame.headers = ack;
  driver.receive(test.qp, frame);
  EXPECT_EQ(pulse.subject.load(), named.word()) << "at a packet";
}

TEST_F(Driver, AConnectionSendsPacketsAndWaitsForAnswers) {
  far.introduce();
  TestQp& test = make_connected();
  run();
  EXPECT_FALSE(is_armed(test));
  post(test, send());
  run();
  EXPECT_EQ(next_sent().opcode, wire::raw(wire::Opcode::kRcSendOnly));
  EXPECT_TRUE(is_armed(test));
  expect_nothing();
  wire::Headers ack;
  ack.opcode = wire::raw(wire::Opcode::kRcAck);
  ack.destination = test.qp.qpn;
  ack.psn = Psn(0xfffff0);
  ack.syndrome = wire::kSyndromeNoCreditLimit;
  arrive(ack);
  expect_completion(0, Status::kSuccess);
  EXPECT_FALSE(is_armed(test));
}

TEST_F(Driver, WhoHearsNothingSendsAgain) {
  far.introduce();
  TestQp& test = make_connected();
  post(test, send());
  run();
  next_sent();
  EXPECT_GE(pass(milliseconds(3)), 1u);
  EXPECT_FALSE(far.receive().empty());
  EXPECT_GE(counted(Count::kRetransmittedPackets), 1u);
}

/// The peer may know it by another address since a change of these.
TEST_F(Driver, WhoHearsNothingTriesItsOtherAddresses) {
  far.introduce();
  TestQp& test = make_connected();
  addresses.set(tenant, {{address(5), PortId(0)}}, {{kNear, PortId(0)}});
  post(test, send());
  run();
  pass(milliseconds(3));
  bool tried = false;
  for (const auto& bytes : far.receive()) {
    wire::ParsedFrame parsed;
    ASSERT_EQ(wire::parse_frame(bytes, parsed), wire::DropReason::kNone);
    tried |= parsed.source == address(5);
  }
  EXPECT_TRUE(tried);
}

TEST_F(Driver, WhoIsToFailFailsInItsTurnAndIsFlushed) {
  TestQp& test = make_connected();
  post(test, send());
  post_receive(test, buffer);
  cpu.fail_later(test.qp, QpFailure::kFatal);
  EXPECT_EQ(state_of(test), QpState::kRts);
  driver.run_ready();
  EXPECT_EQ(state_of(test), QpState::kError);
  driver.run_ready();
  const auto flushed = cq.poll_all();
  ASSERT_EQ(flushed.size(), 2u);
  EXPECT_FALSE(flushed[0].is_receive);
  EXPECT_TRUE(flushed[1].is_receive);
}

TEST_F(Driver, InTheErrorStateReceivesAreLookedForWhenTheyAreDue) {
  TestQp& test = make_connected();
  lifecycle.enter_error(test.qp);
  run();
  post_receive(test, buffer);
  expect_nothing();
  pass(milliseconds(4));
  expect_completion(0, Status::kFlushError);
}

TEST_F(Driver, WhoWaitsForItsPeerHoldsNothingAndGoesOnWhenItCan) {
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
  connect(near, peer);
  for (int i = 0; i < 3; ++i) post(near, send());
  pass(milliseconds(2));
  EXPECT_EQ(held_by(near), 0u);
  EXPECT_EQ(pending(near), 3u);
  EXPECT_TRUE(is_armed(near));
  for (int i = 0; i < 3; ++i) post_receive(peer, buffer);
  for (int i = 0; i < 10; ++i) {
    pass(milliseconds(20));
    dispatch.fetch();
    run();
  }
  EXPECT_EQ(cq.poll_all().size(), 6u);
  EXPECT_EQ(pending(near), 0u);
}

TEST_F(Driver, ManyThatWaitForTheirPeersTryAgainLessOften) {
  const auto tries = [&] {
    return tenant.counters.transport[static_cast<std::size_t>(Count::kRnrNakReceived)].value();
  };
  const auto tries_in_a_second = [&] {
    const std::uint64_t before = tries();
    pass(std::chrono::seconds(1));
    return tries() - before;
  };
  for (int i = 0; i < 2; ++i) {
    TestQp& near = make_qp();
    connect(near, make_qp(), {.rnr_retry = 7});
    post(near, send());
  }
  pass(milliseconds(2));
  ASSERT_EQ(tenant.counters.stalled_queue_pairs.value(), 2u);
  EXPECT_EQ(tries_in_a_second(), 32u) << "in each step";
  tenant.counters.stalled_queue_pairs.add(1 << 20);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(tries_in_a_second(), 0u);
}

TEST_F(Driver, AWaitThatIsOverEndsOnceHoweverLateTheStep) {
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
  connect(near, peer);
  post(near, send());
  driver.run_ready();
  clock.now += std::chrono::milliseconds(1);  // longer than it is polled
  driver.run_ready();
  ASSERT_TRUE(is_armed(near));
  clock.now += std::chrono::seconds(1);
  EXPECT_EQ(driver.expire(), 1u);
}

TEST_F(Driver, PacketsArePaidForAlsoWhenTheyComeTooEarly) {
  TestQp& test = make_qp();
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
  h.destination = test.qp.qpn;
  EXPECT_EQ(cost_of([&] { arrive(h); }), packet_cost(0));
  EXPECT_EQ(counted(Count::kBadState), 1u);
  EXPECT_EQ(tenant.counters.wire.rx_packets.value(), 1u);
}

/// The engine collects waiting commands of a process before all queue pairs of others have had
/// their turns.
TEST_F(Driver, TurnsEndWhenCommandsOfOthersWait) {
  RingMemory other_memory{abi::session_bytes(0)};
  shm::SessionView::format(other_memory.base(), 0);
  Session other{SessionId(9), party, shm::SessionView(other_memory.base(), 0), VcbId(0)};
  registry.install(other);
  registry.poll(other);
  for (int i = 0; i < 3; ++i) make_connected();
  reinterpret_cast<abi::SessionHeader*>(other_memory.base())->doorbell_producer.store(1);
  EXPECT_EQ(driver.run_ready(), 1u);
  intake.collect();
  EXPECT_EQ(driver.run_ready(), 2u);
  registry.remove(other);
}

}  // namespace
}  // namespace softhca::engine
