// SPDX-License-Identifier: Apache-2.0

// The event history of queue pairs: errors are recorded, and queue pairs without errors take no
// entry.
#include "daemon/engine/diagnostics/qp_history.hpp"

#include <regex>
#include <set>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<QpEventKind> kinds(const QpPast& past) {
  std::vector<QpEventKind> out;
  for (std::uint32_t i = 0; i < past.count; ++i) out.push_back(past.events[i].kind());
  return out;
}

class History : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kQueuePairs = 3;

  History() {
    for (QueuePair& each : qps) each.tenant = &tenant;
  }
  std::vector<QpEventKind> kinds_of(const QueuePair& of) const { return kinds(history.past(of)); }
  QpEvent latest(const QueuePair& of) const {
    const QpPast past = history.past(of);
    return past.events[past.count - 1];
  }

  StepClock clock{Time(seconds(100))};
  QpHistory history{clock, kQueuePairs};
  Tenant tenant;
  std::array<QueuePair, kQueuePairs> qps;
  QueuePair& qp = qps[0];
};

TEST_F(History, ChangesOfStateAloneTakeNoPlace) {
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kError}) {
    clock.now += seconds(1);
    history.enter(qp, state);
    EXPECT_EQ(qp.state, state);
    EXPECT_EQ(qp.record.state_since, clock.now);
  }
  history.add_if_any(qp, QpEventKind::kCommandsFlushed);
  EXPECT_EQ(history.in_use(), 0u);
  EXPECT_EQ(history.past(qp).count, 0u);
}

TEST_F(History, BeginsWithTheStateThatTroubleCameIn) {
  history.enter(qp, QpState::kRts);
  const Time since = clock.now;
  clock.now += seconds(5);
  history.add(qp, QpEventKind::kProbe, {.psn = Psn(7)});
  EXPECT_EQ(history.in_use(), 1u);
  const QpPast past = history.past(qp);
  ASSERT_EQ(past.count, 2u);
  EXPECT_EQ(past.events[0].kind(), QpEventKind::kState);
  EXPECT_EQ(past.events[0].first, since);
  EXPECT_EQ(text_of(past.events[0]), "in RTS");
  EXPECT_EQ(past.events[1].first, clock.now);
  EXPECT_EQ(past.events[1].psn, 7u);
  EXPECT_EQ(past.events[1].has_psn, 1u);
  history.enter(qp, QpState::kError);
  EXPECT_EQ(text_of(latest(qp)), "RTS to ERR");
}

TEST_F(History, WhatRepeatsItselfIsOneEvent) {
  const Time first = clock.now;
  for (int i = 0; i < 1000; ++i) {
    history.add(qp, QpEventKind::kSequenceNakReceived, {.psn = Psn(100 + i)});
    history.add(qp, QpEventKind::kEarlyRetry);
    clock.now += milliseconds(2);
  }
  EXPECT_EQ(kinds_of(qp), (std::vector{QpEventKind::kState, QpEventKind::kSequenceNakReceived,
                                       QpEventKind::kEarlyRetry}));
  const QpEvent naks = history.past(qp).events[1];
  EXPECT_EQ(naks.count, 1000u);
  EXPECT_EQ(naks.first, first);
  EXPECT_EQ(naks.last(), clock.now - milliseconds(2));
  EXPECT_EQ(naks.psn, 1099u) << "of the last";
}

TEST_F(History, AfterAPauseOrAChangeOfStateItIsAnother) {
  history.add(qp, QpEventKind::kProbe);
  clock.now += seconds(10);
  history.add(qp, QpEventKind::kProbe);
  EXPECT_EQ(latest(qp).count, 2u);
  clock.now += seconds(11);
  history.add(qp, QpEventKind::kProbe);
  EXPECT_EQ(latest(qp).count, 1u);
  history.enter(qp, QpState::kInit);
  history.add(qp, QpEventKind::kProbe);
  EXPECT_EQ(kinds_of(qp),
            (std::vector{QpEventKind::kState, QpEventKind::kProbe, QpEventKind::kProbe,
                         QpEventKind::kState, QpEventKind::kProbe}));
}

TEST_F(History, AnotherReasonIsAnotherEventAndAnotherFigureIsNot) {
  history.count(qp, transport::Count::kInvalidNakSent, 1, Psn(1));
  history.count(qp, transport::Count::kAccessNakSent, 1, Psn(2));
  history.count(qp, transport::Count::kInvalidNakSent, 1, Psn(3));
  history.count(qp, transport::Count::kAckTimeouts, 1, Psn(4), 6);
  history.count(qp, transport::Count::kAckTimeouts, 1, Psn(4), 5);
  const QpPast past = history.past(qp);
  ASSERT_EQ(past.count, 4u);
  EXPECT_EQ(text_of(past.events[1]), "NAK sent: invalid request");
  EXPECT_EQ(past.events[1].count, 2u);
  EXPECT_EQ(text_of(past.events[2]), "NAK sent: remote access error");
  EXPECT_EQ(text_of(past.events[3]), "no acknowledgement within the timeout, retries left: 5");
  EXPECT_EQ(past.events[3].count, 2u);
}

TEST_F(History, KeepsTheLastOnes) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    history.add(qp, QpEventKind::kProbe, {.psn = Psn(i)});
    clock.now += seconds(11);
  }
  const QpPast past = history.past(qp);
  ASSERT_EQ(past.count, QpPast::kKept);
  for (std::uint32_t i = 0; i < past.count; ++i)
    EXPECT_EQ(past.events[i].psn, 100 - QpPast::kKept + i);
}

TEST_F(History, EachQueuePairHasAPlaceAndGivesItBack) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < kQueuePairs; ++i)
      history.add(qps[i], QpEventKind::kProbe, {.psn = Psn(i)});
    EXPECT_EQ(history.in_use(), kQueuePairs);
    for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
      EXPECT_EQ(history.past(qps[i]).count, 2u)
          << "nothing of the queue pair that had the place before";
      EXPECT_EQ(latest(qps[i]).psn, i);
    }
    for (QueuePair& each : qps) history.forget(each);
    EXPECT_EQ(history.in_use(), 0u);
    EXPECT_EQ(history.past(qp).count, 0u);
  }
}

/// Every count increases its counter. Counts of normal operation add no event to the history.
TEST_F(History, WhatGoesWellIsNoEvent) {
  using transport::Count;
  const std::set<Count> no_events = {Count::kRetransmittedPackets,  // its cause is one
                                     Count::kWriteRequests,
                                     Count::kReadRequests,
                                     Count::kAtomicRequests,
                                     Count::kSparedPackets,
                                     Count::kAcksSent,
                                     Count::kAcksReceived,
                                     Count::kBadState,
                                     Count::kGhostAck,    // comes after the end, or too late
                                     Count::kBadAccess};  // the access is one
  for (std::size_t i = 0; i < static_cast<std::size_t>(Count::kCount); ++i) {
    const auto what = static_cast<Count>(i);
    history.count(qp, what, 2);
    EXPECT_EQ(tenant.counters.transport[i].value(), 2u);
    EXPECT_EQ(history.past(qp).count == 0, no_events.contains(what)) << i;
    history.forget(qp);
  }
}

TEST(QpEvents, EachKindHasAWordForProgramsAndATextForPeople) {
  std::set<std::string> names, texts;
  for (unsigned i = 0; i < static_cast<unsigned>(QpEventKind::kCount); ++i) {
    QpEvent event{.count = 1, .detail = 1};
    event.kind_bits = static_cast<std::uint8_t>(i);
    EXPECT_TRUE(std::regex_match(name_of(event.kind()), std::regex("[a-z][a-z_]*"))) << i;
    EXPECT_TRUE(names.insert(name_of(event.kind())).second) << name_of(event.kind());
    if (event.kind() == QpEventKind::kNone) continue;
    EXPECT_FALSE(text_of(event).empty()) << i;
    EXPECT_TRUE(texts.insert(text_of(event)).second) << text_of(event);
  }
}

// --- in an engine

class PastOf : public BothWays {
 protected:
  PastOf() : pair(GetParam()) {}

  static QpPast past(Process& process, const TestQp& qp) {
    return process.adapter.engine.queue_pairs().past(qp.qp);
  }
  /// The event of this kind, if there is one.
  static QpEvent found(const QpPast& past, QpEventKind kind) {
    for (std::uint32_t i = 0; i < past.count; ++i)
      if (past.events[i].kind() == kind) return past.events[i];
    ADD_FAILURE() << "no " << name_of(kind);
    return {};
  }
  static bool has(const QpPast& past, QpEventKind kind) {
    const auto all = kinds(past);
    return std::find(all.begin(), all.end(), kind) != all.end();
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(PastOf, OneThatAllGoesWellWithIsEmpty) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(9000);
  Buffer& far = b.make_buffer(9000);
  for (int i = 0; i < 3; ++i) {
    b.post_receive(*pair.qb, {far.all()});
    a.post(*pair.qa, {.sge = {near.all()}});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    for (const auto opcode : {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead}) {
      a.post(*pair.qa,
             {.opcode = opcode, .sge = {near.all()}, .remote_addr = far.addr(), .rkey = far.key});
      EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    }
  }
  EXPECT_EQ(past(a, *pair.qa).count, 0u);
  EXPECT_EQ(past(b, *pair.qb).count, 0u);
}

TEST_P(PastOf, ASenderWhosePeerHasNoReceive) {
  pair.connect_pair({.rnr_retry = 2, .min_rnr_timer = 1});
  a.post(*pair.qa, {});
  a.post(*pair.qa, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRnrRetryExceededError);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
  const QpPast past = PastOf::past(a, *pair.qa);
  EXPECT_EQ(kinds(past), (std::vector{QpEventKind::kState, QpEventKind::kRnrNakReceived,
                                      QpEventKind::kCommandFailed, QpEventKind::kFailed,
                                      QpEventKind::kState, QpEventKind::kCommandsFlushed}));
  EXPECT_EQ(found(past, QpEventKind::kRnrNakReceived).count, 3u);
  EXPECT_EQ(found(past, QpEventKind::kRnrNakReceived).detail, 10u) << "us";
  EXPECT_EQ(text_of(found(past, QpEventKind::kFailed)),
            "failed: receiver-not-ready retries exceeded");
  EXPECT_EQ(text_of(past.events[4]), "RTS to ERR");
  if (!local()) {
    EXPECT_EQ(found(PastOf::past(b, *pair.qb), QpEventKind::kRnrNakSent).count, 3u);
  }

  // What came before it goes to the operator with the failure.
  const EventLog& log = a.adapter.engine.event_log();
  ASSERT_EQ(log.count(), 1u);
  EXPECT_EQ(log[0].kind, DaemonEventKind::kQueuePairError);
  EXPECT_EQ(kinds(log.past(0)),
            (std::vector{QpEventKind::kState, QpEventKind::kRnrNakReceived,
                         QpEventKind::kCommandFailed, QpEventKind::kFailed, QpEventKind::kState}));
}

TEST_P(PastOf, AWrongKey) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = 4096,
                    .rkey = 0x7eadbeef});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.state == QpState::kError; }));
  const QpPast there = past(b, *pair.qb);
  EXPECT_EQ(text_of(found(there, QpEventKind::kAccessRefused)), "access refused, key 0x7eadbeef");
  EXPECT_EQ(text_of(found(there, QpEventKind::kFailed)),
            "failed: its peer named memory it may not reach");
  EXPECT_EQ(has(there, QpEventKind::kNakSent), !local());
  const QpPast here = past(a, *pair.qa);
  EXPECT_EQ(text_of(found(here, QpEventKind::kCommandFailed)),
            "command failed: remote access error");
  EXPECT_EQ(has(here, QpEventKind::kNakReceived), !local());
}

TEST_P(PastOf, APeerThatIsGone) {
  pair.connect_pair({.timeout = 8, .retry_count = 2});
  if (local()) {
    b.end();
  } else {
    Buffer& near = a.make_buffer(8);
    Buffer& far = b.make_buffer(8);
    a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                      .sge = {near.all()},
                      .remote_addr = far.addr(),
                      .rkey = far.key});  // finds the neighbour
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    pair.link->set_link(false);
  }
  a.post(*pair.qa, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  const QpEvent timeout = found(past(a, *pair.qa), QpEventKind::kTimeout);
  EXPECT_EQ(timeout.count, 3u);
  EXPECT_EQ(timeout.detail, 0u) << "no retries are left";
  EXPECT_EQ(timeout.has_psn != 0, !local());
}

TEST_P(PastOf, OneThatIsGoneIsForgotten) {
  pair.connect_pair({.rnr_retry = 0, .min_rnr_timer = 1});
  a.post(*pair.qa, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRnrRetryExceededError);
  EXPECT_NE(pair.qa->qp.record.place, kNoIndex);
  const std::uint32_t place = pair.qa->qp.record.place;
  a.destroy(*pair.qa);
  pair.connect_pair({.rnr_retry = 0, .min_rnr_timer = 1});
  EXPECT_EQ(past(a, *pair.qa).count, 0u);
  a.post(*pair.qa, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRnrRetryExceededError);
  EXPECT_EQ(pair.qa->qp.record.place, place) << "taken again";
}

INSTANTIATE_TEST_SUITE_P(Qp, PastOf, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
