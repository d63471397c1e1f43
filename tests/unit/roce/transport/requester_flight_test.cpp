// SPDX-License-Identifier: Apache-2.0

// The requester's congestion window and timeouts (pace.hpp).
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

TEST_F(RequesterTest, RetriesEarlyOnceTheRoundTripIsKnown) {
  attributes.timeout = 14;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += microseconds(100);
  feed_ack(0);  // 100 us, variation 50 us: below the shortest timeout
  post_and_run(RequestKind::kSend, 1);
  env.sent.clear();
  EXPECT_EQ(requester.deadline(), now + milliseconds(1));
  pass(milliseconds(1));
  expect_sent({"SEND_ONLY 1 [0,1) ?"});
  pass(milliseconds(1));
  expect_nothing_sent();  // the timeout has doubled
  pass(milliseconds(1));
  expect_sent({"SEND_ONLY 1 [0,1) ?"});
  expect_count(Count::kEarlyRetries, 2);
  expect_count(Count::kAckTimeouts, 0);
  feed_ack(1);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, PatienceFollowsTheRoundTrip) {
  attributes.timeout = 14;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += milliseconds(8);
  feed_ack(0);
  post_and_run(RequestKind::kSend, 1);
  EXPECT_EQ(requester.deadline(), now + milliseconds(8 + 4 * 4));
}

TEST_F(RequesterTest, EarlyRetriesLeaveTimeoutAndRetryCountAlone) {
  attributes.timeout = 10;  // 4.2 ms
  attributes.retry_count = 1;
  start_at(0);
  const Duration timeout = std::chrono::nanoseconds(4096 << 10);
  post_and_run(RequestKind::kSend, 1);
  feed_ack(0);
  expect_done({"0 ok"});
  post_and_run(RequestKind::kSend, 1);
  const Time sent = now;
  while (env.counted(Count::kAckTimeouts) < 2) pass(requester.deadline() - now);
  EXPECT_EQ(now, sent + 2 * timeout);
  EXPECT_GE(env.counted(Count::kEarlyRetries), 1u);
  expect_done({"1 retry-exceeded"});
}

TEST_F(RequesterTest, WhatWasSentTwiceIsNotTimed) {
  attributes.timeout = 14;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += microseconds(100);
  feed_ack(0);
  post_and_run(RequestKind::kSend, 1);
  feed_nak(1, wire::kSyndromeSequence);
  run();
  now += milliseconds(50);
  feed_ack(1);
  post_and_run(RequestKind::kSend, 1);
  EXPECT_EQ(requester.deadline(), now + milliseconds(1));
}

/// The first retries come too early for it; the next ones do not.
TEST_F(RequesterTest, ALongWayIsMeasuredAllTheSame) {
  attributes.timeout = 18;
  start_at(0);
  for (std::uint32_t psn = 0; psn < 5; ++psn) {
    post_and_run(RequestKind::kSend, 1);
    const Time answer = now + milliseconds(20);
    while (requester.deadline() < answer) pass(requester.deadline() - now);
    now = answer;
    feed_ack(psn);
  }
  expect_count(Count::kEarlyRetries, 1);  // after 8 ms; the next was to come after 24
}

/// The wait between early retries stays long until something is measured.
TEST_F(RequesterTest, AWayThatBecomesLongerIsMeasuredAnew) {
  attributes.timeout = 18;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += microseconds(100);
  feed_ack(0);
  for (std::uint32_t psn = 1; psn < 10; ++psn) {
    post_and_run(RequestKind::kSend, 1);
    const Time answer = now + milliseconds(5);
    while (requester.deadline() < answer) pass(requester.deadline() - now);
    now = answer;
    feed_ack(psn);
  }
  expect_count(Count::kEarlyRetries, 3);  // of the first after 1 and 3 ms, of the second after 4
}

TEST_F(RequesterTest, TheFlightDoublesInEachRoundTripUntilItsLimit) {
  attributes.psn_window = 200;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  std::vector<std::size_t> flights;
  std::uint32_t sent_end = 0;
  for (int i = 0; i < 5; ++i) {
    run();
    flights.push_back(env.sent.size());
    sent_end += static_cast<std::uint32_t>(env.sent.size());
    feed_ack(sent_end - 1);
    env.sent.clear();
  }
  EXPECT_EQ(flights, (std::vector<std::size_t>{32, 64, 128, 200, 200}));
}

TEST_F(RequesterTest, LossWithoutAQueueTakesAFifthOfTheFlight) {
  attributes.psn_window = 32;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  EXPECT_EQ(flight(), 32u);
  feed_nak(10, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 25u);
  feed_nak(20, wire::kSyndromeSequence);  // of the same flight: counts once
  EXPECT_EQ(flight(), 25u);
  feed_ack(44);
  EXPECT_EQ(flight(), 26u) << "what is acknowledged makes it grow again";
}

TEST_F(RequesterTest, LossInAQueueHalvesTheFlight) {
  attributes.psn_window = 32;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  EXPECT_EQ(flight(), 32u);
  now += microseconds(100);
  feed_ack(31);
  EXPECT_EQ(flight(), 32u);
  now += microseconds(125);  // a fifth of the flight waits somewhere
  feed_ack(63);
  EXPECT_EQ(flight(), 32u);
  feed_nak(64, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 16u);
}

TEST_F(RequesterTest, TheJitterOfHostsIsNoQueue) {
  attributes.psn_window = 32;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  EXPECT_EQ(flight(), 32u);
  now += microseconds(20);
  feed_ack(31);
  EXPECT_EQ(flight(), 32u);
  now += microseconds(39);
  feed_ack(63);
  EXPECT_EQ(flight(), 32u);
  feed_nak(64, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 25u);
}

/// The way may have changed: a least from long ago says nothing.
TEST_F(RequesterTest, TheLeastRoundTripHoldsForSeconds) {
  attributes.psn_window = 32;
  start_at(0);
  post(RequestKind::kSend, 3000 * 256);
  std::uint32_t acknowledged = 0;
  const auto round = [&](Duration time) {
    acknowledged += static_cast<std::uint32_t>(flight());
    now += time;
    feed_ack(acknowledged - 1);
  };
  round(microseconds(100));
  for (int i = 0; i < 4; ++i) {
    now += std::chrono::seconds(2);
    round(microseconds(200));
  }
  EXPECT_EQ(flight(), 32u);
  acknowledged += 32;
  feed_nak(acknowledged - 32, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 16u) << "100 us of 8 s ago";
  acknowledged -= 16;
  now += std::chrono::seconds(8);
  feed_ack(acknowledged - 1);
  for (int i = 0; i < 3; ++i) {
    now += std::chrono::seconds(6);
    round(microseconds(200));
  }
  const std::size_t before = flight();
  feed_nak(acknowledged, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), before * 4 / 5);
}

TEST_F(RequesterTest, AfterATimeoutTheFlightBeginsWithOnePacketAndDoublesUpToHalf) {
  attributes.psn_window = 32;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  EXPECT_EQ(flight(), 32u);
  pass_deadline();
  EXPECT_EQ(flight(), 1u);
  pass_deadline();
  EXPECT_EQ(flight(), 1u);
  std::vector<std::size_t> flights;
  for (std::uint32_t acknowledged = 0, i = 0; i < 6; ++i) {
    feed_ack(acknowledged);
    flights.push_back(flight());
    acknowledged += static_cast<std::uint32_t>(flights.back());
  }
  EXPECT_EQ(flights, (std::vector<std::size_t>{2, 4, 8, 16, 17, 17}));
}

/// With less than a packet in a round trip: one in several.
TEST_F(RequesterTest, BelowOnePacketItPausesBetweenTwo) {
  attributes.timeout = 14;
  attributes.psn_window = 1;
  start_at(0);
  post(RequestKind::kSend, 1000 * 256);
  flight();
  now += milliseconds(1);
  feed_ack(0);
  EXPECT_EQ(flight(), 1u);
  now += milliseconds(3);
  feed_ack(1);
  EXPECT_EQ(flight(), 1u);
  feed_nak(2, wire::kSyndromeSequence);  // lost in a queue: half a packet
  EXPECT_EQ(flight(), 1u) << "what is sent again goes at once";
  const Duration round_trip = microseconds(1250);
  EXPECT_EQ(requester.deadline(), now + 2 * round_trip);
  now += microseconds(500);
  feed_ack(2);
  EXPECT_EQ(flight(), 0u);
  EXPECT_EQ(requester.progress().obstacle, SendObstacle::kPace);
  now = requester.deadline();
  requester.expire(env, now);
  EXPECT_EQ(flight(), 1u);
  expect_count(Count::kAckTimeouts, 0);
  expect_count(Count::kEarlyRetries, 0);
}

/// A request that waits for its time is taken back and started again; its time stays.
TEST_F(RequesterTest, WhatPausesCanBeWithdrawn) {
  attributes.psn_window = 1;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += milliseconds(1);
  feed_ack(0);
  post_and_run(RequestKind::kSend, 1);
  now += milliseconds(3);
  feed_ack(1);
  post_and_run(RequestKind::kSend, 1);
  feed_nak(2, wire::kSyndromeSequence);
  run();
  feed_ack(2);
  const Request waits = make(RequestKind::kSend, 1);
  post(waits);
  env.sent.clear();
  run();
  expect_nothing_sent();
  EXPECT_EQ(requester.progress().next, SendObstacle::kPace);
  requester.withdraw_unsent([&](PcbId pcb) { EXPECT_EQ(pcb, waits.pcb); });
  EXPECT_EQ(requester.progress().next, SendObstacle::kPace);
  now = requester.deadline();
  ASSERT_NE(now, kNever);
  requester.expire(env, now);
  run();
  EXPECT_EQ(requester.progress().next, SendObstacle::kNone);
  post(waits);
  run();
  expect_sent({"SEND_ONLY 3 [0,1) ?"});
}

/// The end of a pause is nothing to wake up for while the receiver is not ready.
TEST_F(RequesterTest, WhileTheReceiverIsNotReadyAPauseIsOver) {
  send_through_a_queue();
  feed_nak(2, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 1u);
  feed_nak(2, wire::kSyndromeRnr | 30);  // 327.68 ms
  EXPECT_EQ(requester.deadline(), now + microseconds(327'680));
  pass_deadline();
  EXPECT_EQ(flight(), 1u);
}

/// What the port does not take at the end of a pause is not waited for until it has gone.
TEST_F(RequesterTest, AtTheEndOfAPauseThePortMayBeFull) {
  attributes.timeout = 14;
  send_through_a_queue();
  feed_nak(2, wire::kSyndromeSequence);
  EXPECT_EQ(flight(), 1u);
  now += milliseconds(10);  // early: nothing has come
  requester.expire(env, now);
  env.port_buffers = 0;
  now += milliseconds(20);
  EXPECT_TRUE(run()) << "it could go on";
  const std::size_t early = env.counted(Count::kEarlyRetries);
  EXPECT_GT(requester.deadline(), now);
  requester.expire(env, now + milliseconds(100));
  expect_count(Count::kEarlyRetries, early);
  expect_count(Count::kAckTimeouts, 0);
}

/// In pauses the timeout does not run: there NAKs are counted.
TEST_F(RequesterTest, NaksWithoutProgressEndASlowedQueuePair) {
  attributes.timeout = 14;
  attributes.retry_count = 3;
  send_through_a_queue();
  feed_nak(2, wire::kSyndromeSequence);
  run();
  int naks = 0;
  for (; env.done.empty() && naks < 100; ++naks) {
    feed_nak(2, wire::kSyndromeSequence);
    pass_deadline();
    run();
  }
  EXPECT_EQ(naks, 4);
  expect_done({"0 retry-exceeded"});
}

/// A peer that says what it lacks is there: only the timeout, which goes on running, counts.
TEST_F(RequesterTest, NaksOfLossUseUpNoRetries) {
  attributes.retry_count = 0;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 10; ++i) {
    now += kTimeout / 20;
    feed_nak(0, wire::kSyndromeSequence);
    run();
  }
  expect_done({});
  pass(kTimeout / 2 + microseconds(1));
  expect_done({"0 retry-exceeded"});
}

TEST_F(RequesterTest, WithoutATimeoutNaksAreCounted) {
  attributes.timeout = 0;
  attributes.retry_count = 1;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  feed_nak(0, wire::kSyndromeSequence);
  run();
  expect_done({});
  feed_nak(0, wire::kSyndromeSequence);
  expect_done({"0 retry-exceeded"});
}

}  // namespace
}  // namespace softhca::transport
