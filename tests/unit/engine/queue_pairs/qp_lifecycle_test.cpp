// SPDX-License-Identifier: Apache-2.0

// Queue pairs as they come, change their state and go, without an engine.
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"

#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/qp_parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Gid kAttachedGroup = Gid::from_ipv4(0xe0000109);  // 224.0.1.9

class Lifecycle : public QpParts {
 protected:
  Work send() { return {.sge = {buffer.part(0, 8)}}; }
  std::uint32_t queue_pairs_on(TvlId id) const { return tvls[id].queue_pairs; }
  bool is_open(const TestQp& test) const {
    return scheduler.is_open(schedule::QpSlot(test.qp.slot));
  }
  bool next_turn_is_of(const TestQp& test) { return cpu.begin() == test.qp.slot; }
  transport::WirePosition position_of(const TestQp& test) {
    return std::get<transport::Rc>(test.qp.transport).position();
  }
  /// A packet of its peer: a send in one packet.
  void receive(TestQp& test, Psn psn) {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
    h.destination = test.qp.qpn;
    h.psn = psn;
    h.ack_request = true;
    QpEnvironment env(transport_parts, test.qp);
    std::get<transport::Rc>(test.qp.transport).receive(env, h, {}, clock.now);
  }

  Buffer& buffer = make_buffer(64);
};

// --- coming and going

TEST_F(Lifecycle, ANewQueuePairHasNumberTvlsAndPays) {
  QueuePair* made = nullptr;
  EXPECT_EQ(cost_of([&] { made = &make_qp().qp; }), kInstallCost);
  EXPECT_EQ(queue_pairs.find(made->qpn), made);
  EXPECT_EQ(made->qos_class, tenant.qos_class);
  EXPECT_EQ(made->sq.tvl, tvl);
  EXPECT_EQ(made->sq.dedicated_tvl, dedicated_tvl);
  EXPECT_EQ(queue_pairs_on(tvl), 1u);
  EXPECT_EQ(tenant.counters.queue_pairs.value(), 1u);
  EXPECT_EQ(made->state, QpState::kReset);
}

TEST_F(Lifecycle, WithoutAFreeSlotThereIsNoQueuePair) {
  std::vector<std::unique_ptr<TestQp>> many;
  bool installed = true;
  while (installed) {
    ASSERT_LT(many.size(), 100u);
    many.push_back(std::make_unique<TestQp>(QpOptions{}));
    describe(*many.back(), {}, session, kPd, cq, cq);
    installed = lifecycle.install(many.back()->qp);
  }
  many.pop_back();
  EXPECT_EQ(tenant.counters.queue_pairs.value(), many.size());
  EXPECT_EQ(queue_pairs_on(tvl), many.size());
  for (const auto& test : many) lifecycle.remove(test->qp);
}

TEST_F(Lifecycle, OneOfTheDaemonsOwnKeepsItsNumberAndTakesNobodysPlace) {
  TestQp own({.type = QpType::kUd}), twin({.type = QpType::kUd});
  for (TestQp* test : {&own, &twin}) {
    describe(*test, {.type = QpType::kUd}, session, kPd, cq, cq);
    test->qp.qpn = kGeneralServicesQpn;
  }
  EXPECT_EQ(cost_of([&] { EXPECT_TRUE(lifecycle.install_own(own.qp)); }), 0u);
  EXPECT_EQ(queue_pairs.find(kGeneralServicesQpn), &own.qp);
  EXPECT_FALSE(lifecycle.install_own(twin.qp));
  lifecycle.remove(own.qp);
  EXPECT_EQ(queue_pairs.find(kGeneralServicesQpn), nullptr);
}

TEST_F(Lifecycle, WhatGoesLeavesNothingBehind) {
  TestQp& going = make_connected();
  const Qpn qpn = going.qp.qpn;
  post(going, send());
  kick(going, send());
  multicast.attach(going.qp, kAttachedGroup);
  sink.full = true;
  async_events.raise(going.qp, EventType::kQpFatal);
  const std::uint64_t handle = going.qp.user_handle;
  EXPECT_GE(cost_of([&] { remove(going); }), kRemoveCost);
  sink.full = false;
  clock.now += EventRetry::kLongest;
  async_events.retry();
  EXPECT_EQ(sink.count(EventType::kQpFatal, handle), 0u);
  EXPECT_EQ(queue_pairs.find(qpn), nullptr);
  EXPECT_EQ(queue_pairs_on(tvl), 0u);
  EXPECT_EQ(queue_pairs_on(dedicated_tvl), 0u);
  EXPECT_EQ(tenant.counters.queue_pairs.value(), 0u);
  EXPECT_EQ(pcbs_in_use(), 0u);
  EXPECT_FALSE(cpu.has_work());
  multicast.for_each_inside(kAttachedGroup, std::nullopt, [](QueuePair&) {
    ADD_FAILURE() << "it is still a member";
    return true;
  });
  expect_nothing();
}

TEST_F(Lifecycle, AConnectionThatHasReceivedIsRememberedForAWhile) {
  far.introduce();
  TestQp& going = make_connected();
  const Qpn qpn = going.qp.qpn;
  post_receive(going, buffer);
  receive(going, Psn(0xfffff0));
  remove(going);
  packets.finish_batch();
  EXPECT_EQ(far.receive().size(), 1u) << "it pays what it owes first";
  const TimeWait* left = lifecycle.time_wait().find(qpn, clock.now);
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(left->answer.psn, Psn(0xfffff0));
  EXPECT_EQ(left->path.destination, kFar);
  EXPECT_EQ(left->tenant, tenant.id);
  EXPECT_NE(lifecycle.time_wait().find(qpn, clock.now + milliseconds(3999)), nullptr);
  EXPECT_EQ(lifecycle.time_wait().find(qpn, clock.now + seconds(4)), nullptr);
}

TEST_F(Lifecycle, OneWithoutAPeerThatCouldMissItIsNotRemembered) {
  far.introduce();
  TestQp& silent = make_connected();
  const Qpn silent_qpn = silent.qp.qpn;
  remove(silent);
  EXPECT_EQ(lifecycle.time_wait().find(silent_qpn, clock.now), nullptr) << "nothing has come";
  TestQp& failed = make_connected();
  const Qpn failed_qpn = failed.qp.qpn;
  post_receive(failed, buffer);
  receive(failed, Psn(0xfffff0));
  lifecycle.enter_error(failed.qp);
  remove(failed);
  EXPECT_EQ(lifecycle.time_wait().find(failed_qpn, clock.now), nullptr) << "it had failed";
}

// --- packets ahead of their turn

TEST_F(Lifecycle, PacketsAheadOfTheirTurnAreKeptAndExecutedInIt) {
  TestQp& test = make_connected();
  for (int i = 0; i < 2; ++i) post_receive(test, buffer);
  receive(test, Psn(0xfffff1));
  EXPECT_EQ(tenant.kept.held.value(), 1u);
  expect_nothing();
  receive(test, Psn(0xfffff0));
  QpEnvironment env(transport_parts, test.qp);
  std::get<transport::Rc>(test.qp.transport).transmit(env, clock.now, 8);
  EXPECT_EQ(tenant.kept.held.value(), 0u);
  EXPECT_EQ(position_of(test).receive, Psn(0xfffff2));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(cq.poll());
  expect_nothing();
}

TEST_F(Lifecycle, HowFarAheadTheyMayBeIsASettingOfConnectionsMadeAfterIt) {
  TestQp& before = make_connected();
  lifecycle.set_reliability({.out_of_order = 2});
  TestQp& test = make_connected();
  lifecycle.set_reliability({.out_of_order = 0});
  TestQp& none = make_connected();
  receive(before, Psn(0xfffff3));
  EXPECT_EQ(tenant.kept.held.value(), 1u) << "128 by default";
  receive(test, Psn(0xfffff3));
  EXPECT_EQ(tenant.kept.held.value(), 1u);
  receive(test, Psn(0xfffff2));
  EXPECT_EQ(tenant.kept.held.value(), 2u);
  receive(none, Psn(0xfffff1));
  EXPECT_EQ(tenant.kept.held.value(), 2u);
}

TEST_F(Lifecycle, ATenantKeepsNoMoreThanItsWatermark) {
  tenant.kept.set_watermark(2);
  TestQp& one = make_connected();
  TestQp& other = make_connected();
  receive(one, Psn(0xfffff1));
  receive(other, Psn(0xfffff1));
  receive(other, Psn(0xfffff2));
  EXPECT_EQ(tenant.kept.held.value(), 0u);
  EXPECT_EQ(tenant.kept.given_up.value(), 2u);
}

TEST_F(Lifecycle, NothingIsKeptOfAQueuePairThatIsResetFailsOrGoes) {
  TestQp& resets = make_connected();
  TestQp& fails = make_connected();
  TestQp& goes = make_connected();
  for (TestQp* test : {&resets, &fails, &goes}) receive(*test, Psn(0xfffff1));
  ASSERT_EQ(tenant.kept.held.value(), 3u);
  lifecycle.reset(resets.qp, 0);
  EXPECT_EQ(tenant.kept.held.value(), 2u);
  lifecycle.enter_error(fails.qp);
  EXPECT_EQ(tenant.kept.held.value(), 1u);
  remove(goes);
  EXPECT_EQ(tenant.kept.held.value(), 0u);
}

// --- RESET

TEST_F(Lifecycle, ResetVoidsCommandsWithoutCompletions) {
  TestQp& test = make_connected();
  post(test, send());
  kick(test, send());
  write_command(test, send());
  lifecycle.reset(test.qp, 3);
  expect_nothing();
  EXPECT_EQ(held_by(test), 0u);
  EXPECT_EQ(under_way(test), 0u);
  EXPECT_EQ(state_of(test), QpState::kReset);
  EXPECT_FALSE(is_open(test));
}

TEST_F(Lifecycle, AfterResetNumbersGoOnWhereTheProgramSays) {
  TestQp& test = make_connected();
  write_command(test, send());
  ring(test);
  write_command(test, send());
  lifecycle.reset(test.qp, 2);
  bring_up(lifecycle, test, kPeer, kFar);
  EXPECT_EQ(scheduler.ring(schedule::QpSlot(test.qp.slot), 2), schedule::RingVerdict::kStale);
  write_command(test, send());
  ring(test);
  EXPECT_EQ(pending(test), 1u);
}

TEST_F(Lifecycle, ResetForgetsTheFailureAndWhatWasToBeDone) {
  TestQp& test = make_connected();
  cpu.fail_later(test.qp, QpFailure::kFatal);
  lifecycle.timers().arm(TimerId(test.qp.slot), clock.now + seconds(1));
  lifecycle.reset(test.qp, 0);
  EXPECT_FALSE(about_to_fail(test));
  EXPECT_EQ(test.qp.error.cause, QpFailure::kNone);
  EXPECT_FALSE(cpu.has_work());
  EXPECT_FALSE(lifecycle.timers().armed(TimerId(test.qp.slot)));
  lifecycle.enter_error(test.qp);
  EXPECT_EQ(state_of(test), QpState::kReset) << "there is nothing to fail";
}

/// The program counts on each work request of a shared queue to complete, sometime.
TEST_F(Lifecycle, ResetLosesNoReceiveOfASharedQueue) {
  TestSrq& srq = make_srq();
  TestQp& sharing = make_connected({.srq = &srq});
  TestQp& own = make_connected();
  srq.ring.post(7, {buffer.all()});
  post_receive(own, buffer);
  for (TestQp* test : {&sharing, &own}) {
    ASSERT_EQ(receives.draw(test->qp), shm::Take::kTaken);
    lifecycle.reset(test->qp, 0);
  }
  expect_completion(7, Status::kFlushError);
  expect_nothing();
}

// --- ready to receive and to send

TEST_F(Lifecycle, TheSendQueueOpensWhenItIsReadyToSend) {
  TestQp& test = make_qp();
  bring_up(lifecycle, test, kPeer, kFar, {}, false);
  EXPECT_EQ(state_of(test), QpState::kRtr);
  EXPECT_FALSE(is_open(test));
  lifecycle.enter_ready_to_send(test.qp, Psn(77));
  EXPECT_EQ(state_of(test), QpState::kRts);
  EXPECT_TRUE(is_open(test));
  EXPECT_EQ(position_of(test).send, Psn(77));
  EXPECT_EQ(position_of(test).receive, Psn(0xfffff0));
  EXPECT_TRUE(next_turn_is_of(test));
}

TEST_F(Lifecycle, AnXrcTargetSendsNothing) {
  TestQp& target = make_qp({.type = QpType::kXrcReceive, .xrc_domain = XrcDomainId(3)});
  bring_up(lifecycle, target, kPeer, kFar);
  EXPECT_EQ(state_of(target), QpState::kRts);
  EXPECT_FALSE(is_open(target));
  lifecycle.enter_error(target.qp);
  EXPECT_FALSE(is_open(target));
}

TEST_F(Lifecycle, TheAddressOfThePeerChoosesTheTransport) {
  TestQp& test = make_connected();
  EXPECT_FALSE(test.qp.is_local());
  post_receive(test, buffer);
  receive(test, Psn(0xfffff0));
  test.qp.connection.route.path.destination = kNear;
  lifecycle.apply_attributes(test.qp);
  EXPECT_TRUE(test.qp.is_local());
  test.qp.connection.route.path.destination = kFar;
  lifecycle.apply_attributes(test.qp);
  ASSERT_FALSE(test.qp.is_local());
  EXPECT_EQ(position_of(test).send, Psn(0xfffff0));
  EXPECT_EQ(position_of(test).receive, Psn(0xfffff1)) << "goes on where it was";
}

TEST_F(Lifecycle, WhatIsUnderWayStaysOnItsTransport) {
  TestQp& test = make_connected();
  post(test, send());
  test.qp.connection.route.path.destination = kNear;
  lifecycle.apply_attributes(test.qp);
  EXPECT_FALSE(test.qp.is_local());
  lifecycle.reset(test.qp, 1);
  lifecycle.apply_attributes(test.qp);
  EXPECT_TRUE(test.qp.is_local());
}

TEST_F(Lifecycle, EachTypeHasItsTransport) {
  const auto made = [&](QpType type) -> const QueuePair::Transport& {
    return make_connected({.type = type}).qp.transport;
  };
  EXPECT_TRUE(std::holds_alternative<transport::Rc>(made(QpType::kRc)));
  EXPECT_TRUE(std::holds_alternative<transport::Rc>(made(QpType::kXrcSend)));
  EXPECT_TRUE(std::holds_alternative<transport::Uc>(made(QpType::kUc)));
  TestQp& datagrams = make_qp({.type = QpType::kUd});
  datagrams.qp.connection.route.path.destination = kNear;
  bring_up_datagram(lifecycle, datagrams, 1);
  EXPECT_TRUE(std::holds_alternative<transport::Ud>(datagrams.qp.transport));
}

// --- SQD

TEST_F(Lifecycle, WhileDrainingWhatHasNotBegunWaitsInTheSendQueue) {
  TestQp& test = make_connected();
  post(test, send());
  kick(test, send());
  lifecycle.enter_drain(test.qp, false);
  EXPECT_EQ(state_of(test), QpState::kSqd);
  EXPECT_EQ(under_way(test), 1u);
  EXPECT_EQ(held_by(test), 1u);
  EXPECT_EQ(pending(test), 1u);
  EXPECT_EQ(dispatch.fetch(), 0u);
  lifecycle.enter_ready_to_send(test.qp, Psn(1));
  EXPECT_EQ(dispatch.fetch(), 1u);
  EXPECT_EQ(position_of(test).send, Psn(0xfffff0)) << "that of the one that is under way";
}

// --- ERR

TEST_F(Lifecycle, AnErrorFlushesCommandsInOrderThenReceives) {
  TestQp& test = make_connected();
  kick(test, send());
  kick(test, {.opcode = static_cast<abi::Opcode>(0x55)});
  kick(test, send());
  execution.start_commands();
  post_receive(test, buffer);
  post_receive(test, buffer);
  ASSERT_TRUE(next_turn_is_of(test));
  cpu.finished(test.qp, false);
  lifecycle.enter_error(test.qp);
  for (const std::uint32_t index : {0u, 1u, 2u}) expect_completion(index, Status::kFlushError);
  expect_nothing();
  ASSERT_TRUE(next_turn_is_of(test)) << "in which its receives are flushed";
  EXPECT_FALSE(lifecycle.flush_receives(test.qp));
  for (const std::uint32_t index : {0u, 1u}) expect_completion(index, Status::kFlushError);
  expect_nothing();
}

TEST_F(Lifecycle, AReceiveThatWasDrawnIsFlushedOnce) {
  TestQp& test = make_connected();
  post_receive(test, buffer);
  ASSERT_EQ(receives.draw(test.qp), shm::Take::kTaken);
  lifecycle.enter_error(test.qp);
  expect_completion(0, Status::kFlushError);
  EXPECT_FALSE(lifecycle.flush_receives(test.qp));
  expect_nothing();
}

TEST_F(Lifecycle, ConsumersThatPostAsFastHaveNoMoreThanTheirTurns) {
  TestQp& test = make_connected({.receive_entries = 128});
  for (int i = 0; i < 128; ++i) post_receive(test, buffer);
  lifecycle.enter_error(test.qp);
  EXPECT_EQ(cost_of([&] { EXPECT_TRUE(lifecycle.flush_receives(test.qp)); }), 64 * kFlushCost);
  EXPECT_EQ(cq.poll_all().size(), 64u);
  lifecycle.flush_receives(test.qp);
  EXPECT_EQ(cq.poll_all().size(), 64u);
}

TEST_F(Lifecycle, ReceivesAreLookedForEverLessOftenAndTogether) {
  TestQp& test = make_connected();
  lifecycle.enter_error(test.qp);
  const auto wait = [&] {
    EXPECT_FALSE(lifecycle.flush_receives(test.qp));
    const Time began = clock.now;
    while (lifecycle.timers().advance(clock.now, [](TimerId) {}) == 0) {
      EXPECT_LT(clock.now - began, seconds(1));
      if (clock.now - began >= seconds(1)) break;
      clock.now = std::max(clock.now + milliseconds(1) / 4, lifecycle.timers().next_deadline());
    }
    const Duration waited = clock.now - began;
    return std::chrono::round<milliseconds>(waited).count();
  };
  clock.now += milliseconds(3);
  for (const int expected : {1, 2, 4, 8}) EXPECT_EQ(wait(), expected);
  for (int interval = 16; interval <= 256; interval *= 2) {
    const auto waited = wait();
    EXPECT_GE(waited, interval);
    EXPECT_LE(waited, interval + 8);
    EXPECT_LT(clock.now.time_since_epoch() % milliseconds(8), milliseconds(1));
  }
  EXPECT_LE(wait(), 264) << "no less often than that";
  post_receive(test, buffer);
  EXPECT_EQ(wait(), 1) << "there may be more";
}

TEST_F(Lifecycle, UsersOfSharedQueuesHearOfTheirLastReceiveOnce) {
  TestSrq& srq = make_srq();
  TestQp& sharing = make_connected({.srq = &srq});
  TestQp& own = make_connected();
  for (int i = 0; i < 2; ++i)
    for (TestQp* test : {&sharing, &own}) lifecycle.enter_error(test->qp);
  EXPECT_EQ(raised(EventType::kQpLastWqeReached, sharing), 1u);
  EXPECT_EQ(raised(EventType::kQpLastWqeReached, own), 0u);
}

TEST_F(Lifecycle, TheOperatorHearsOfFailuresOnly) {
  TestQp& orderly = make_connected();
  TestQp& failing = make_connected();
  lifecycle.enter_error(orderly.qp);
  EXPECT_EQ(event_log.count(), 0u);
  cpu.fail_later(failing.qp, QpFailure::kFatal);
  for (int i = 0; i < 2; ++i) lifecycle.enter_error(failing.qp);
  ASSERT_EQ(event_log.count(), 1u);
  EXPECT_EQ(event_log[0].kind, DaemonEventKind::kQueuePairError);
  EXPECT_EQ(event_log[0].qpn, failing.qp.qpn);
  EXPECT_EQ(event_log[0].cause, text_of(QpFailure::kFatal));
  EXPECT_EQ(event_log[0].peer, failing.qp.connection.route.path.destination);
  EXPECT_EQ(event_log[0].peer_qpn, failing.qp.connection.destination);
  for (std::size_t i = 0; i < tenant.counters.completion.failures.size(); ++i)
    EXPECT_EQ(tenant.counters.completion.failures[i].value(),
              i == static_cast<std::size_t>(QpFailure::kFatal))
        << i;
}

TEST_F(Lifecycle, InErrorItTakesCommandsToFlushThemAlsoWhenItNeverSent) {
  TestQp& test = make_qp();
  bring_up(lifecycle, test, kPeer, kFar, {}, false);
  lifecycle.enter_error(test.qp);
  ASSERT_TRUE(is_open(test));
  post(test, send());
  expect_completion(0, Status::kFlushError);
}

TEST_F(Lifecycle, AStallEndsWithAnError) {
  TestQp& test = make_qp();
  TestQp& peer = make_qp();
  connect(test, peer);
  post(test, send());
  deliver_in_vain(test);
  stall.stall(test.qp);
  lifecycle.enter_error(test.qp);
  EXPECT_EQ(dispatch.fetch(), 1u);
  execution.start_commands();
  expect_completion(0, Status::kFlushError);
}

// --- holders of XRC targets

class Holders : public Lifecycle {
 protected:
  Holders() {
    heir.qos_class = tenant.qos_class;
    lifecycle.share(target.qp, {&heir, 900});
  }
  ~Holders() override { remove(target); }
  std::size_t told(std::uint64_t handle) const { return sink.count(EventType::kQpFatal, handle); }

  RingMemory heir_memory{sizeof(abi::SessionHeader)};
  Session heir{SessionId(2), tenant, shm::SessionView(heir_memory.base(), 0), VcbId(0)};
  TestQp& target = make_qp({.type = QpType::kXrcReceive, .xrc_domain = XrcDomainId(3)});
  const QpHolder first{&session, target.qp.user_handle};
};

TEST_F(Holders, EachIsToldOfEvents) {
  async_events.raise(target.qp, EventType::kQpFatal);
  EXPECT_EQ(told(first.user_handle), 1u);
  async_events.tell_holders();
  EXPECT_EQ(told(900), 1u);
}

TEST_F(Holders, WhoLetsGoIsToldNoMore) {
  lifecycle.unshare(target.qp, {&heir, 900});
  async_events.raise(target.qp, EventType::kQpFatal);
  EXPECT_EQ(told(900), 0u);
  EXPECT_EQ(target.qp.session, &session);
}

TEST_F(Holders, TheHeirTakesOverFromItsMaker) {
  bring_up(lifecycle, target, kPeer, kFar);
  lifecycle.unshare(target.qp, first);
  EXPECT_EQ(target.qp.session, &heir);
  EXPECT_EQ(target.qp.user_handle, 900u);
  EXPECT_TRUE(session.queue_pairs.empty());
  EXPECT_FALSE(heir.queue_pairs.empty());
  EXPECT_EQ(queue_pairs.find(target.qp.qpn), &target.qp);
  EXPECT_EQ(queue_pairs_on(tvl), 1u);
  EXPECT_TRUE(next_turn_is_of(target)) << "what it had to do is still to be done";
  async_events.raise(target.qp, EventType::kQpFatal);
  EXPECT_EQ(told(900), 1u);
  EXPECT_EQ(told(first.user_handle), 0u);
}

}  // namespace
}  // namespace softhca::engine
