// SPDX-License-Identifier: Apache-2.0

// Shared receive queues with limits (mechanism D): one sender that runs away costs the others
// nothing, wherever it is; a consumer that breaks the rules costs itself.
#include <map>
#include <utility>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kBuffers = 16;
constexpr std::uint32_t kLimit = 4;
constexpr std::size_t kProvisionedBytes = 64;
constexpr auto kWhile = std::chrono::milliseconds(20);

SrqPolicy limited(std::uint32_t limit, OnExceed on_exceed = OnExceed::kDropMessage) {
  SrqPolicy policy;
  policy.limits.fill(limit);
  policy.on_exceed = on_exceed;
  return policy;
}

/// Process b receives from several connections of a on one queue of 16 buffers, all posted.
class Provisioning : public BothWays {
 protected:
  static constexpr std::size_t kSenders = 4;  ///< number 0 is the one that runs away

  /// Sets the limit of one queue pair alone, whatever the policy says.
  void set_limit(QueuePair& qp, std::uint32_t limit) {
    engine().receive_queues().set_terms(qp.qpn, {.limit = limit, .importance = std::nullopt});
  }

  Provisioning() : pair(GetParam()) {
    srq = &pair.b->make_srq(kBuffers);
    pair.b->session->process = 4711;
    pair.srq = srq;
    ca = &pair.a->make_cq(256);
    cb = &pair.b->make_cq(256);
    for (std::size_t i = 0; i < kSenders; ++i) {
      senders.push_back(&pair.a->make_qp(*ca, *ca, {.send_entries = 64}));
      receivers.push_back(&pair.b->make_qp(*cb, *cb, {.srq = srq}));
      connect(*pair.a, *senders[i], *pair.b, *receivers[i]);
      sent.push_back(0);
    }
    buffer = &pair.b->make_buffer(kBuffers * kProvisionedBytes);
    message = &pair.a->make_buffer(kProvisionedBytes);
    message->fill(1);
    for (std::uint32_t i = 0; i < kBuffers; ++i) post(i);
  }
  ~Provisioning() {
    pair.b->end();
    pair.run_for(std::chrono::seconds(1));
  }

  Engine& engine() { return pair.b->adapter.engine; }
  receive::ProvisioningCounters& counters() { return pair.b->tenant.counters.receive; }
  void set(const SrqPolicy& policy) { provision(engine(), pair.b->tenant, policy); }
  void post(std::uint32_t i) {
    srq->ring.post(i, {buffer->part(i * kProvisionedBytes, kProvisionedBytes)});
  }
  void send(std::size_t sender, unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      pair.a->post(*senders[sender], {.sge = {message->all()}}, Process::Way::kDoorbell);
      ++sent[sender];
    }
  }
  /// What b received of each connection so far, every completion checked.
  const std::map<std::uint32_t, unsigned>& received() {
    while (const auto c = cb->poll()) {
      EXPECT_EQ(c->status, Status::kSuccess);
      EXPECT_EQ(c->byte_len, kProvisionedBytes);
      EXPECT_EQ(std::memcmp(buffer->data() + c->index * kProvisionedBytes, message->data(),
                            kProvisionedBytes),
                0);
      ++got[c->qpn];
      unposted.push_back(c->index);
    }
    return got;
  }
  unsigned received_by(std::size_t i) {
    received();
    return got[receivers[i]->qp.qpn.value];
  }
  void repost_all() {
    received();
    for (const std::uint32_t i : unposted) post(i);
    unposted.clear();
  }
  /// The consumer works again: everything that was sent arrives, and is told to the sender.
  void expect_all_arrive() {
    EXPECT_TRUE(pair.run_until([&] {
      repost_all();
      for (std::size_t i = 0; i < kSenders; ++i)
        if (received_by(i) < sent[i]) return false;
      return true;
    }));
    pair.run_for(kWhile);
    unsigned total = 0;
    for (const unsigned n : sent) total += n;
    unsigned completed = 0;
    while (const auto c = ca->poll()) {
      EXPECT_EQ(c->status, Status::kSuccess);
      ++completed;
    }
    EXPECT_EQ(completed, total);
  }
  std::vector<DaemonEvent> events(DaemonEventKind kind) {
    std::vector<DaemonEvent> found;
    const EventLog& log = engine().event_log();
    for (std::uint64_t i = log.oldest(); i < log.count(); ++i)
      if (log[i].kind == kind) found.push_back(log[i]);
    return found;
  }

  Pair pair;
  TestSrq* srq;
  TestCq* ca;
  TestCq* cb;
  std::vector<TestQp*> senders, receivers;
  std::vector<unsigned> sent;
  std::map<std::uint32_t, unsigned> got;  ///< by queue pair
  std::vector<std::uint32_t> unposted;
  Buffer* buffer;
  Buffer* message;
};

/// What the limit is there to prevent.
TEST_P(Provisioning, WithoutALimitOneSenderTakesItAll) {
  send(0, 20);
  pair.run_for(kWhile);
  send(1, 1);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), kBuffers);
  EXPECT_EQ(received_by(1), 0u);
  EXPECT_FALSE(srq->srq.provisioner);
  expect_all_arrive();
}

TEST_P(Provisioning, WithAHardLimitTheOthersLoseNothing) {
  set(limited(kLimit));
  send(0, 20);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), kLimit);
  for (std::size_t i = 1; i < kSenders; ++i) send(i, kLimit);
  pair.run_for(kWhile);
  for (std::size_t i = 0; i < kSenders; ++i) EXPECT_EQ(received_by(i), kLimit) << i;
  EXPECT_GT(counters().hard_refused.value(), 0u);
  const auto refused = events(DaemonEventKind::kSrqHardLimit);
  ASSERT_EQ(refused.size(), 1u) << "told once";
  EXPECT_EQ(refused[0].qpn, receivers[0]->qp.qpn);
  EXPECT_EQ(refused[0].process, 4711u);
  EXPECT_EQ(refused[0].tenant, pair.b->tenant.id);
  EXPECT_EQ(refused[0].amount, kLimit);
  expect_all_arrive();
}

/// Buffers of the one that runs away are kept; those of another come and go.
TEST_P(Provisioning, KeepingOnesMessagesCostsOnlyThatOne) {
  set(limited(kLimit));
  send(0, 8);
  pair.run_for(kWhile);
  ASSERT_EQ(received_by(0), kLimit);
  const std::vector<std::uint32_t> kept = std::exchange(unposted, {});
  for (unsigned i = 0; i < 3 * kBuffers; ++i) {
    send(1, 1);
    ASSERT_TRUE(pair.run_until([&] { return received_by(1) == i + 1; }, kWhile)) << i;
    repost_all();
  }
  EXPECT_EQ(received_by(0), kLimit);
  unposted = kept;
  expect_all_arrive();
}

TEST_P(Provisioning, SoftLimitTellsAndLetsThrough) {
  SrqPolicy policy = limited(kLimit);
  policy.kind = LimitKind::kSoft;
  set(policy);
  send(0, 10);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 10u);
  EXPECT_EQ(counters().soft_exceeded.value(), 1u);
  EXPECT_EQ(events(DaemonEventKind::kSrqSoftLimit).size(), 1u);
  expect_all_arrive();
}

TEST_P(Provisioning, LimitsChangeWhileMessagesFlow) {
  set(limited(kLimit));
  set_limit(receivers[0]->qp, 7);
  send(0, 12);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 7u);
  set_limit(receivers[0]->qp, 0);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 12u);
  set_limit(receivers[0]->qp, receive::Member::kByPolicy);
  set(SrqPolicy{});
  expect_all_arrive();
}

TEST_P(Provisioning, ALimitForOneQueuePairNeedsNoPolicy) {
  set(limited(kLimit));
  set(SrqPolicy{});
  set_limit(receivers[0]->qp, 2);
  send(0, 5);
  send(1, 9);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 2u);
  EXPECT_EQ(received_by(1), 9u);
  expect_all_arrive();
}

/// Paths of ordinary programs all have the same traffic class.
TEST_P(Provisioning, TheOperatorSaysWhoIsImportant) {
  SrqPolicy policy = limited(0, OnExceed::kDropConnection);
  policy.watermark = 6;
  set(policy);
  const auto importance = [&](std::size_t receiver, std::uint8_t value) {
    engine().receive_queues().set_terms(receivers[receiver]->qp.qpn,
                                        {.limit = std::nullopt, .importance = value});
  };
  importance(0, 7);
  importance(1, 3);
  importance(2, 5);
  importance(2, receive::Member::kByPath);
  send(2, 2);
  send(1, 3);
  pair.run_for(kWhile);
  send(0, 9);
  pair.run_for(kWhile);
  EXPECT_EQ(receivers[0]->qp.state, QpState::kRts);
  EXPECT_EQ(receivers[1]->qp.state, QpState::kRts);
  EXPECT_TRUE(receivers[2]->qp.rq.given_up) << "that of its path is 0";
  EXPECT_EQ(counters().connections_dropped.value(), 1u);
  // Its next message ends it, and its peer learns why.
  while (ca->poll()) continue;
  send(2, 1);
  ASSERT_TRUE(pair.run_until([&] { return receivers[2]->qp.state == QpState::kError; }));
  pair.run_for(kWhile);
  const auto told = ca->poll();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->status, Status::kRemoteOperationError);
  EXPECT_EQ(senders[2]->qp.state, QpState::kError);
}

// --- rules

TEST_P(Provisioning, RulesDecideByPeerAndQueue) {
  const Gid peer = receivers[0]->qp.connection.route.path.destination;
  SrqRules rules(3);
  rules[0] = {.queue = srq->srq.number + 1, .limit = 1};
  rules[1] = {.peers = {{peer, 32}}, .level = "high", .limit = 2};
  rules[2] = {.peers = {{peer, 24}}, .limit = 3, .on_exceed = OnExceed::kQuarantine};
  provision(engine(), pair.b->tenant, SrqPolicy{}, rules);
  send(0, 8);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 3u);
  EXPECT_EQ(receivers[0]->qp.rq.member.terms.rule, 3u);
  EXPECT_EQ(events(DaemonEventKind::kSrqQuarantined).size(), 1u);
  expect_all_arrive();
}

TEST_P(Provisioning, ChangedRulesHoldAtOnceForThoseThatHoldBuffers) {
  provision(engine(), pair.b->tenant, SrqPolicy{}, {{.limit = 3}});
  send(0, 8);
  pair.run_for(kWhile);
  ASSERT_EQ(received_by(0), 3u);
  provision(engine(), pair.b->tenant, SrqPolicy{}, {{.limit = 5}});
  EXPECT_EQ(srq->srq.provisioner->limit_of(receivers[0]->qp.rq.member), 5u);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 5u);
  provision(engine(), pair.b->tenant, SrqPolicy{}, {});
  expect_all_arrive();
}

TEST_P(Provisioning, AnotherPeerIsAnotherRule) {
  QueuePair& qp = receivers[0]->qp;
  const Gid peer = qp.connection.route.path.destination;
  provision(engine(), pair.b->tenant, SrqPolicy{},
            {{.peers = {{peer, 32}}, .limit = 2}, {.limit = 4}});
  engine().receive_queues().follow_rules(qp);
  EXPECT_EQ(qp.rq.member.terms.rule, 1u);
  qp.connection.route.path.destination = Gid::from_ipv4(0x0b0b0b0b);
  ReceiveQueues::path_changed(qp);
  engine().receive_queues().follow_rules(qp);
  EXPECT_EQ(qp.rq.member.terms.rule, 2u);
  qp.connection.route.path.destination = peer;
}

TEST_P(Provisioning, ImportanceByRule) {
  SrqPolicy policy = limited(0, OnExceed::kDropConnection);
  policy.watermark = 6;
  provision(engine(), pair.b->tenant, policy, {{.importance = 5}});
  engine().receive_queues().set_terms(receivers[1]->qp.qpn,
                                      {.limit = std::nullopt, .importance = 2});
  send(1, 3);
  pair.run_for(kWhile);
  send(0, 9);
  pair.run_for(kWhile);
  EXPECT_FALSE(receivers[0]->qp.rq.given_up);
  EXPECT_TRUE(receivers[1]->qp.rq.given_up) << "qp set goes before rules";
}

TEST_P(Provisioning, AQuarantinedConnectionStaysAndGoesOnByItself) {
  set(limited(kLimit, OnExceed::kQuarantine));
  send(0, 12);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), kLimit);
  EXPECT_EQ(counters().quarantined.value(), 1u);
  send(1, kLimit);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(1), kLimit);
  expect_all_arrive();
  pair.run_for(receive::kInterval);
  send(0, 1);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 13u);
  EXPECT_EQ(senders[0]->qp.state, QpState::kRts);
  EXPECT_EQ(counters().quarantined.value(), 0u);
  EXPECT_EQ(events(DaemonEventKind::kSrqQuarantined).size(), counters().quarantines.value());
  EXPECT_EQ(events(DaemonEventKind::kSrqQuarantineOver).size(), counters().quarantines.value());
}

// --- one check of how low the queue is

TEST_P(Provisioning, TheProgramsLimitNamesWhoDraws) {
  engine().receive_queues().set_limit(srq->srq, 8);
  send(1, 2);
  pair.run_for(kWhile);
  send(0, 9);
  pair.run_for(kWhile);
  EXPECT_EQ(pair.b->adapter.sink.count(EventType::kSrqLimitReached, srq->srq.user_handle), 1u);
  const auto low = events(DaemonEventKind::kSrqLimitReached);
  ASSERT_EQ(low.size(), 1u);
  EXPECT_EQ(low[0].amount, 7u);
  EXPECT_EQ(low[0].of, kBuffers - 7);
  const auto drawers = events(DaemonEventKind::kSrqDrawer);
  ASSERT_EQ(drawers.size(), 2u) << "no accounts are kept";
  EXPECT_EQ(drawers[0].qpn, receivers[0]->qp.qpn);
  EXPECT_EQ(drawers[0].amount, 7u);
  EXPECT_EQ(drawers[0].of, 9u);
}

TEST_P(Provisioning, TheProgramsLimitRanksAccountsToo) {
  set(limited(12));
  engine().receive_queues().set_limit(srq->srq, 8);
  send(0, 9);
  pair.run_for(kWhile);
  EXPECT_EQ(events(DaemonEventKind::kSrqLimitReached).size(), 1u);
  const auto offenders = events(DaemonEventKind::kSrqOffender);
  ASSERT_EQ(offenders.size(), 1u);
  EXPECT_EQ(offenders[0].of, 12u);
}

/// On by default, without accounts.
TEST_P(Provisioning, ARunawayIsReported) {
  send(1, 3);
  pair.run_for(kWhile);
  send(0, 11);
  pair.run_for(kWhile);
  ASSERT_FALSE(srq->srq.provisioner);
  const auto told = events(DaemonEventKind::kSrqRunaway);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].qpn, receivers[0]->qp.qpn);
  EXPECT_EQ(told[0].amount, 11u);
  EXPECT_EQ(told[0].of, 14u);
  EXPECT_EQ(counters().runaways.value(), 1u);
}

TEST_P(Provisioning, AQueueThatIsSharedEvenlyHasNoRunaway) {
  for (std::size_t i = 0; i < kSenders; ++i) send(i, 4);
  pair.run_for(kWhile);
  EXPECT_TRUE(events(DaemonEventKind::kSrqRunaway).empty());
}

TEST_P(Provisioning, AttemptsThatFindNothingAreCountedByWhoWaits) {
  send(0, kBuffers);
  pair.run_for(kWhile);
  for (std::size_t i = 0; i < kSenders; ++i) send(i, 1);
  pair.run_for(kWhile);
  EXPECT_GE(srq->srq.empty, kSenders);
  EXPECT_EQ(srq->srq.most_waiting, kSenders);
  EXPECT_EQ(srq->srq.level.peak(), kBuffers);
  expect_all_arrive();
}

TEST_P(Provisioning, StatisticalLimitsFollowTheSender) {
  SrqPolicy policy = limited(2);
  policy.statistical = true;
  set(policy);
  for (unsigned i = 0; i < 20; ++i) {
    send(0, 8);
    const unsigned wanted = sent[0];
    ASSERT_TRUE(pair.run_until([&] {
      repost_all();
      return received_by(0) == wanted;
    }));
    pair.run_for(std::chrono::milliseconds(110));
  }
  EXPECT_GT(counters().raised.value(), 0u);
  EXPECT_GT(srq->srq.provisioner->limit_of(receivers[0]->qp.rq.member), 2u);
  expect_all_arrive();
}

TEST_P(Provisioning, TheConnectionThatExceedsIsDropped) {
  set(limited(kLimit, OnExceed::kDropConnection));
  send(1, 3);
  send(0, 20);
  ASSERT_TRUE(pair.run_until([&] { return receivers[0]->qp.state == QpState::kError; }));
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), kLimit);
  EXPECT_EQ(received_by(1), 3u);
  EXPECT_EQ(counters().connections_dropped.value(), 1u);
  EXPECT_EQ(events(DaemonEventKind::kSrqConnectionDropped).size(), 1u);
  EXPECT_EQ(pair.b->adapter.sink.count(EventType::kQpFatal, receivers[0]->qp.user_handle), 1u);
  EXPECT_TRUE(pair.run_until([&] { return senders[0]->qp.state == QpState::kError; }, kWhile))
      << "told, not timed out";
  std::optional<Completed> refused;
  while (const auto c = ca->poll())
    if (c->status != Status::kSuccess && !refused) refused = c;
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, Status::kRemoteOperationError);
  send(2, 4);
  repost_all();
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(2), 4u);
}

TEST_P(Provisioning, WatermarkNamesOffendersAndGivesUpTheLeastImportant) {
  SrqPolicy policy = limited(0, OnExceed::kDropConnection);
  policy.watermark = 6;
  set(policy);
  receivers[2]->qp.connection.route.path.traffic_class = 0xb8;  // expedited forwarding
  receivers[1]->qp.connection.route.path.traffic_class = 3 << 5;
  send(2, 1);
  send(1, 3);
  pair.run_for(kWhile);
  EXPECT_TRUE(events(DaemonEventKind::kSrqWatermark).empty());
  send(0, 9);
  pair.run_for(kWhile);
  const auto low = events(DaemonEventKind::kSrqWatermark);
  ASSERT_EQ(low.size(), 1u);
  EXPECT_EQ(low[0].amount, 6u);
  const auto offenders = events(DaemonEventKind::kSrqOffender);
  ASSERT_EQ(offenders.size(), 3u);
  EXPECT_EQ(offenders[0].qpn, receivers[0]->qp.qpn);
  EXPECT_EQ(offenders[0].process, 4711u);
  EXPECT_EQ(offenders[1].qpn, receivers[1]->qp.qpn);
  EXPECT_EQ(receivers[0]->qp.state, QpState::kError);
  EXPECT_EQ(receivers[1]->qp.state, QpState::kRts);
  EXPECT_EQ(receivers[2]->qp.state, QpState::kRts);
}

TEST_P(Provisioning, AQueuePairThatGoesLeavesItsBuffersToTheConsumer) {
  set(limited(kLimit));
  send(0, 3);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(0), 3u);
  pair.b->destroy(*receivers[0]);
  receivers[0] = &pair.b->make_qp(*cb, *cb, {.srq = srq});
  EXPECT_EQ(srq->srq.provisioner->held_by(receivers[0]->qp.rq.member), 0u);
  repost_all();
  send(1, 1);
  pair.run_for(kWhile);
  EXPECT_EQ(received_by(1), 1u);
  EXPECT_EQ(srq->srq.provisioner->accounts_in_use(), 1u);
}

TEST_P(Provisioning, DatagramsBeyondTheLimitAreCountedDrops) {
  set(limited(2));
  TestQp& from = pair.a->make_qp(*ca, *ca, {.type = QpType::kUd, .send_entries = 16});
  TestQp& to = pair.b->make_qp(*cb, *cb, {.type = QpType::kUd, .srq = srq});
  bring_up_datagram(*pair.a, from, 0x1234);
  bring_up_datagram(*pair.b, to, 0x1234);
  const std::uint32_t ah = pair.a->make_ah(pair.b->tenant.addresses[0].gid);
  for (int i = 0; i < 5; ++i)
    pair.a->post(from, {.sge = {message->part(0, 8)},
                        .remote_qpn = to.qp.qpn.value,
                        .remote_qkey = 0x1234,
                        .address_handle = ah});
  pair.run_for(kWhile);
  const auto dropped = static_cast<std::size_t>(transport::Count::kReceiveDropped);
  EXPECT_EQ(pair.b->tenant.counters.transport[dropped].value(), 3u);
  EXPECT_EQ(cb->poll_all().size(), 2u);
}

/// D3: a message ahead of the next expected one holds no buffer here, so that there is nothing
/// to bound. The link loses the first of two messages.
TEST_P(Provisioning, WhatIsAheadOfALostPacketDrawsNothing) {
  if (local()) GTEST_SKIP() << "nothing is lost between queue pairs of one daemon";
  set(limited(kLimit));
  send(1, 1);
  pair.run_for(kWhile);
  ASSERT_EQ(received_by(1), 1u);
  pair.link->set_link(false);
  send(0, 1);
  pair.steps(5);
  pair.link->set_link(true);
  send(0, 1);
  const auto ahead = static_cast<std::size_t>(transport::Count::kOutOfSequence);
  ASSERT_TRUE(pair.run_until([&] { return pair.b->tenant.counters.transport[ahead].value() != 0; },
                             kWhile));
  EXPECT_EQ(srq->srq.provisioner->held_by(receivers[0]->qp.rq.member), 0u);
  EXPECT_EQ(srq->srq.ring.available(), kBuffers - 1);
  expect_all_arrive();
}

// --- a consumer that breaks the rules

TEST_P(Provisioning, PostingMoreThanItGotGainsNothing) {
  set(limited(kLimit));
  send(0, 20);
  pair.run_for(kWhile);
  ASSERT_EQ(received_by(0), kLimit);
  // Up and down again: a post counts once.
  const std::uint32_t honest = srq->ring.producer();
  for (int i = 0; i < 50; ++i) {
    srq->ring.producer() = honest + 1;
    pair.run_for(std::chrono::microseconds(200));
    srq->ring.producer() = honest;
    pair.run_for(std::chrono::microseconds(200));
  }
  EXPECT_LE(received_by(0), kLimit + 1);
  EXPECT_LE(srq->srq.provisioner->accounts_in_use(), kBuffers);
}

TEST_P(Provisioning, AScribbledProducerFailsTheQueueAlone) {
  set(limited(kLimit));
  srq->ring.producer() = 0xdeadbeef;
  send(0, 1);
  pair.run_for(kWhile);
  EXPECT_TRUE(srq->srq.failed);
  EXPECT_EQ(pair.b->tenant.counters.refused.hostile_memory.value(), 1u);
  EXPECT_EQ(pair.b->adapter.sink.count(EventType::kSrqError, srq->srq.user_handle), 1u);
}

TEST_P(Provisioning, ScribbledElementsFailTheQueueAlone) {
  set(limited(kLimit));
  for (std::uint32_t i = 0; i < kBuffers; ++i) srq->ring.element(i).num_sge = 0xffffffff;
  send(0, 1);
  pair.run_for(kWhile);
  EXPECT_TRUE(srq->srq.failed);
}

INSTANTIATE_TEST_SUITE_P(, Provisioning, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
