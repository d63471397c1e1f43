// SPDX-License-Identifier: Apache-2.0

// What a requester does about loss, refusal and strange answers.
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

TEST_F(RequesterTest, AcknowledgementCoversAllBeforeIt) {
  for (int i = 0; i < 3; ++i) post_and_run(RequestKind::kSend, 1);
  feed_ack(1);
  expect_done({"0 ok", "1 ok"});
  feed_ack(2);
  expect_done({"2 ok"});
  expect_count(Count::kAcksReceived, 2);
}

TEST_F(RequesterTest, GhostAcknowledgementsAreIgnored) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  feed_ack(0);
  expect_done({"0 ok"});
  feed_ack(2);                               // not sent yet
  feed_ack(0xfffff0);                        // long past
  feed_nak(0, wire::kSyndromeRemoteAccess);  // of what was acknowledged
  feed_read(Opcode::kRcReadResponseOnly, 0, 1);
  expect_count(Count::kGhostAck, 4);
  expect_done({});
  feed_ack(0);  // a duplicate of the newest does not count as a ghost
  expect_count(Count::kGhostAck, 4);
  expect_events({});
}

/// The earlier engine was killed after packets had left and before it recorded that. The window is
/// too small to send them all again before an answer.
TEST_F(RequesterTest, ResumedOne_TakesAcknowledgementsOfAllThatHadBegun) {
  attributes.psn_window = 2;
  start_at(0);
  requester.reset({Psn(10), Psn(3), Psn(10), Psn(11)}, true);
  Request begun = make(RequestKind::kWrite, 1);
  begun.begun = true;
  for (std::uint32_t i = 0; i < 5; ++i) {
    begun.pcb = PcbId(i);
    post(begun);
  }
  run();
  env.sent.clear();
  feed_ack(13);
  expect_done({"0 ok", "1 ok", "2 ok", "3 ok"});
  run();
  expect_sent({"WRITE_ONLY 14 1000+1 [0,1) ?"});
  post(make(RequestKind::kSend, 1));
  feed_ack(15);  // not begun by that engine, nor sent by this one
  expect_count(Count::kGhostAck, 1);
  feed_ack(14);
  expect_done({"4 ok"});
}

TEST_F(RequesterTest, AnswersBeforeAnythingWasSentAreGhosts) {
  feed_nak(0, wire::kSyndromeRemoteAccess);
  feed_nak(0, wire::kSyndromeRnr);
  feed_read(Opcode::kRcReadResponseFirst, 5, 256);
  feed(Opcode::kRcAtomicAck, 0);
  expect_count(Count::kGhostAck, 4);
  expect_events({});
}

TEST_F(RequesterTest, RequestsAndForeignOpcodesAreDropped) {
  post_and_run(RequestKind::kSend, 1);
  feed(Opcode::kRcSendOnly, 0);
  feed(Opcode::kUcSendOnly, 0);
  feed(Opcode::kXrcAck, 0);
  feed(static_cast<Opcode>(0x1f), 0);
  expect_count(Count::kBadOpcode, 4);
  expect_done({});
}

TEST_F(RequesterTest, ReservedSyndromeIsDropped) {
  post_and_run(RequestKind::kSend, 1);
  feed_nak(0, 0x40);
  feed_nak(0, 0x80);
  feed_nak(0, 0xe0);
  expect_count(Count::kGhostAck, 3);
  expect_done({});
}

TEST_F(RequesterTest, SequenceNakGoesBack) {
  post_and_run(RequestKind::kSend, 1024);
  post_and_run(RequestKind::kWrite, 1);
  env.sent.clear();
  feed_nak(2, wire::kSyndromeSequence);
  run();
  expect_sent(
      {"SEND_MIDDLE 2 [512,768)", "SEND_LAST 3 [768,1024) ?", "WRITE_ONLY 4 1000+1 [0,1) ?"});
  expect_count(Count::kRetransmittedPackets, 3);
  expect_count(Count::kSequenceNakReceived, 1);
  feed_ack(4);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, NakSeenTwiceCostsOneRetry) {
  attributes.retry_count = 1;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  feed_nak(0, wire::kSyndromeSequence);
  feed_nak(0, wire::kSyndromeSequence);
  expect_done({});
  feed_ack(0);
  expect_done({"0 ok"});
}

TEST_F(RequesterTest, FatalNaksEndTheQueuePair) {
  struct Case {
    std::uint8_t syndrome;
    const char* verdict;
    Count count;
  };
  const Case cases[] = {
      {0x61, "1 remote-invalid-request", Count::kInvalidNakReceived},
      {0x62, "1 remote-access", Count::kAccessNakReceived},
      {0x63, "1 remote-operation", Count::kOperationNakReceived},
      {0x64, "1 bad-response", Count::kCount},
      {0x7f, "1 bad-response", Count::kCount},
  };
  for (const Case& c : cases) {
    env = FakeEnvironment();
    number = 0;
    start_at(0);
    for (int i = 0; i < 3; ++i) post_and_run(RequestKind::kSend, 1);
    feed_nak(1, c.syndrome);
    expect_done({"0 ok", c.verdict});
    expect_events({"error"});
    if (c.count != Count::kCount) expect_count(c.count, 1);
    requester.flush(env);
    expect_done({"2 flushed"});
    feed_ack(2);
    expect_count(Count::kBadState, 1);
    EXPECT_FALSE(run());
  }
}

TEST_F(RequesterTest, TimeoutRetriesFromTheOldest) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  feed_ack(0);
  env.sent.clear();
  EXPECT_EQ(requester.deadline(), now + kTimeout);
  pass(kTimeout - std::chrono::nanoseconds(1));
  expect_nothing_sent();
  pass(std::chrono::nanoseconds(1));
  expect_sent({"SEND_ONLY 1 [0,1) ?"});
  expect_count(Count::kAckTimeouts, 1);
}

TEST_F(RequesterTest, RetriesAreExceeded) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 3; ++i) pass(kTimeout);
  expect_done({});
  pass(kTimeout);
  expect_done({"0 retry-exceeded"});
  expect_events({"error"});
  EXPECT_EQ(requester.deadline(), kNever);
  requester.flush(env);
  expect_done({"1 flushed"});
}

TEST_F(RequesterTest, AttributesThatStayDoNotRenewTheRetries) {
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 3; ++i) pass(kTimeout);
  requester.configure(attributes);
  pass(kTimeout);
  expect_done({"0 retry-exceeded"});
}

TEST_F(RequesterTest, AnotherNumberOfRetriesRenewsThem) {
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 3; ++i) pass(kTimeout);
  attributes.retry_count = 4;
  requester.configure(attributes);
  for (int i = 0; i < 4; ++i) pass(kTimeout);
  expect_done({});
  pass(kTimeout);
  expect_done({"0 retry-exceeded"});
}

TEST_F(RequesterTest, ProgressRenewsTheRetries) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 3; ++i) pass(kTimeout);
  feed_ack(0);
  for (int i = 0; i < 3; ++i) pass(kTimeout);
  expect_done({"0 ok"});
  feed_ack(1);
  expect_done({"1 ok"});
}

TEST_F(RequesterTest, TimeoutZeroIsNever) {
  attributes.timeout = 0;
  requester.configure(attributes);
  post_and_run(RequestKind::kSend, 1);
  EXPECT_EQ(requester.deadline(), kNever);
}

TEST_F(RequesterTest, ResetTimerStartsWithTheNextPacket) {
  post_and_run(RequestKind::kSend, 1);
  feed_ack(0);
  EXPECT_EQ(requester.deadline(), kNever);
  now += milliseconds(50);
  post_and_run(RequestKind::kSend, 1);
  EXPECT_EQ(requester.deadline(), now + kTimeout);
}

// --- receiver not ready

TEST_F(RequesterTest, RnrNakWaitsAsLongAsItSays) {
  post_and_run(RequestKind::kSend, 300);
  env.sent.clear();
  feed_nak(0, wire::kSyndromeRnr | 12);
  EXPECT_FALSE(run());
  expect_nothing_sent();
  EXPECT_EQ(requester.deadline(), now + microseconds(640));
  pass(microseconds(639));
  expect_nothing_sent();
  pass(microseconds(1));
  expect_sent({"SEND_FIRST 0 [0,256)", "SEND_LAST 1 [256,300) ?"});
  expect_count(Count::kRnrNakReceived, 1);
  expect_count(Count::kAckTimeouts, 0);
  EXPECT_EQ(requester.deadline(), now + kTimeout);
}

TEST_F(RequesterTest, RnrRetriesAreExceeded) {
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 2; ++i) {
    feed_nak(0, wire::kSyndromeRnr | 1);
    pass(microseconds(10));
  }
  expect_done({});
  feed_nak(0, wire::kSyndromeRnr | 1);
  expect_done({"0 rnr-retry-exceeded"});
  expect_events({"error"});
}

TEST_F(RequesterTest, RnrRetrySevenIsForEver) {
  attributes.rnr_retry = 7;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 1000; ++i) {
    feed_nak(0, wire::kSyndromeRnr | 1);
    pass(microseconds(10));
  }
  expect_done({});
  feed_ack(0);
  expect_done({"0 ok"});
}

TEST_F(RequesterTest, RnrNakRenewsTheRetriesOfSilence) {
  attributes.rnr_retry = 7;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 10; ++i) {
    for (int lost = 0; lost < attributes.retry_count; ++lost) pass(kTimeout);
    feed_nak(0, wire::kSyndromeRnr | 1);
    pass(microseconds(10));
  }
  expect_done({});
  for (int lost = 0; lost <= attributes.retry_count; ++lost) pass(kTimeout);
  expect_done({"0 retry-exceeded"});
}

TEST_F(RequesterTest, SilenceDoesNotRenewRnrRetries) {
  attributes.rnr_retry = 2;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 2; ++i) {
    feed_nak(0, wire::kSyndromeRnr | 1);
    pass(microseconds(10));
    pass(kTimeout);
  }
  expect_done({});
  feed_nak(0, wire::kSyndromeRnr | 1);
  expect_done({"0 rnr-retry-exceeded"});
}

TEST_F(RequesterTest, RnrNakSeenTwiceCostsOneRetry) {
  attributes.rnr_retry = 1;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  feed_nak(0, wire::kSyndromeRnr | 1);
  feed_nak(0, wire::kSyndromeRnr | 1);
  expect_done({});
}

TEST_F(RequesterTest, RnrNakAcknowledgesWhatIsBeforeIt) {
  post_and_run(RequestKind::kWrite, 1);
  post_and_run(RequestKind::kSend, 1);
  env.sent.clear();
  feed_nak(1, wire::kSyndromeRnr | 1);
  expect_done({"0 ok"});
  pass(microseconds(10));
  expect_sent({"SEND_ONLY 1 [0,1) ?"});
}

/// Requests refused by an RNR NAK may be taken out, and have their PSNs when they come again.
TEST_F(RequesterTest, WithdrawnRequestsStartAnew) {
  attributes.rnr_retry = 1;
  start_at(0);
  post_and_run(RequestKind::kWrite, 1);
  post_and_run(RequestKind::kSend, 300);
  post_and_run(RequestKind::kRead, 600);
  feed_nak(1, wire::kSyndromeRnr | 1);
  expect_done({"0 ok"});
  ASSERT_TRUE(requester.is_held());
  expect_progress(SendObstacle::kReceiver, 5, 5);
  std::vector<PcbId> taken;
  requester.withdraw([&](PcbId pcb) { taken.push_back(pcb); });
  EXPECT_EQ(taken, (std::vector<PcbId>{PcbId(1), PcbId(2)}));
  expect_progress(SendObstacle::kReceiver, 0, 0);
  for (const std::uint32_t late : {1, 2, 5}) feed_ack(late);
  feed_nak(1, wire::kSyndromeRnr | 1);
  expect_count(Count::kGhostAck, 4);
  env.sent.clear();
  pass(microseconds(10));
  EXPECT_FALSE(requester.is_held());
  expect_nothing_sent();
  post_and_run(RequestKind::kSend, 300);
  post_and_run(RequestKind::kRead, 600);
  expect_sent({"SEND_FIRST 1 [0,256)", "SEND_LAST 2 [256,300) ?", "READ_REQ 3 1000+600 ?"});
  // Its retries go on where they were.
  feed_nak(1, wire::kSyndromeRnr | 1);
  expect_done({"3 rnr-retry-exceeded"});
}

/// The requester withdraws its requests while it waits for a silent peer. The retries stay the
/// same.
TEST_F(RequesterTest, RequestsToASilentPeerAreWithdrawnBetweenRetries) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kWrite, 300);
  pass(kTimeout);
  EXPECT_FALSE(requester.rest_if_silent(false)) << "one may be lost";
  pass(kTimeout);
  for (int tries = 1; tries <= 2; ++tries) {
    ASSERT_TRUE(requester.rest_if_silent(false)) << tries;
    EXPECT_EQ(requester.progress().obstacle, SendObstacle::kPeer);
    ASSERT_TRUE(requester.is_held());
    EXPECT_FALSE(requester.rest_if_silent(false));
    requester.withdraw([](PcbId) {});
    EXPECT_EQ(requester.deadline(), now + kTimeout);
    env.sent.clear();
    run();
    pass(kTimeout / 2);
    expect_nothing_sent();
    pass(kTimeout / 2);
    EXPECT_FALSE(requester.is_held());
    EXPECT_EQ(requester.deadline(), kNever) << "until it goes";
    now += milliseconds(100);
    expect_events({});
    post_and_run(RequestKind::kSend, 1);
    if (tries == 1) expect_sent({"SEND_ONLY 0 [0,1) ?"});
  }
  expect_count(Count::kAckTimeouts, 4);
  expect_nothing_sent();
  expect_done({"3 retry-exceeded"});
}

TEST_F(RequesterTest, WhatIsAcknowledgedWhileItIsWithdrawnIsDone) {
  for (int i = 0; i < 3; ++i) post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 2; ++i) pass(kTimeout);
  ASSERT_TRUE(requester.rest_if_silent(false));
  requester.withdraw([](PcbId) {});
  feed_ack(1);
  EXPECT_FALSE(requester.is_held()) << "the peer is there";
  EXPECT_EQ(requester.deadline(), kNever);
  env.sent.clear();
  for (const char* done : {"3 ok", "4 ok"}) {
    post_and_run(RequestKind::kSend, 1);
    expect_nothing_sent();
    expect_done({done});
  }
  post_and_run(RequestKind::kSend, 1);
  expect_sent({"SEND_ONLY 2 [0,1) ?"});
  EXPECT_FALSE(requester.rest_if_silent(false));
  feed_ack(2);
  expect_done({"5 ok"});
  expect_count(Count::kGhostAck, 0);
}

/// What they answer with has no place meanwhile: it is asked for again.
TEST_F(RequesterTest, AReadAnsweredWhileItIsWithdrawnIsSentAgain) {
  post_and_run(RequestKind::kRead, 100);
  for (int i = 0; i < 2; ++i) pass(kTimeout);
  ASSERT_TRUE(requester.rest_if_silent(false));
  requester.withdraw([](PcbId) {});
  feed_read(Opcode::kRcReadResponseOnly, 0, 100);
  EXPECT_FALSE(requester.is_held());
  env.sent.clear();
  post_and_run(RequestKind::kRead, 100);
  expect_sent({"READ_REQ 0 1000+100 ?"});
  EXPECT_FALSE(requester.rest_if_silent(false));
  feed_read(Opcode::kRcReadResponseOnly, 0, 100);
  expect_done({"1 ok"});
}

TEST_F(RequesterTest, OnlyAnswersToWhatWasSentWakeWhoRests) {
  post_and_run(RequestKind::kSend, 1);
  for (int i = 0; i < 2; ++i) pass(kTimeout);
  ASSERT_TRUE(requester.rest_if_silent(false));
  requester.withdraw([](PcbId) {});
  feed_ack(1);
  feed_ack(0xffffff);
  EXPECT_TRUE(requester.is_held());
}

TEST_F(RequesterTest, SomeEarlyRetriesInARowAreSilence) {
  attributes.timeout = 14;
  start_at(0);
  post_and_run(RequestKind::kSend, 1);
  now += microseconds(10);
  feed_ack(0);
  expect_done({"0 ok"});
  post_and_run(RequestKind::kSend, 1);
  for (int retries = 1; retries <= 3; ++retries) {
    EXPECT_FALSE(requester.rest_if_silent(false));
    pass(requester.deadline() - now);
  }
  EXPECT_TRUE(requester.rest_if_silent(false));
  expect_count(Count::kAckTimeouts, 0);
  feed_ack(1);  // it was not withdrawn
  expect_done({"1 ok"});
  EXPECT_FALSE(requester.is_held());
  env.sent.clear();
  post_and_run(RequestKind::kSend, 1);
  expect_sent({"SEND_ONLY 2 [0,1) ?"});
  pass(requester.deadline() - now);
  EXPECT_FALSE(requester.rest_if_silent(false)) << "the peer has answered";
}

/// It has yet to answer a read, and says that it is there, by an acknowledgement of what is done.
TEST_F(RequesterTest, APeerThatSaysThatItIsThereIsNotSilent) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  feed_ack(1);
  post_and_run(RequestKind::kRead, 100);
  for (unsigned tries = 0; tries < 3u * attributes.retry_count; ++tries) {
    pass(kTimeout);
    EXPECT_FALSE(requester.rest_if_silent(false)) << tries;
    feed_ack(tries % 2);
  }
  feed_read(Opcode::kRcReadResponseOnly, 2, 100);
  expect_done({"0 ok", "1 ok", "2 ok"});
  expect_count(Count::kGhostAck, 0);
}

TEST_F(RequesterTest, APeerThatSaysThatItIsThereWakesWhoAwaitsItsResponse) {
  post_and_run(RequestKind::kRead, 100);
  for (int i = 0; i < 2; ++i) pass(kTimeout);
  ASSERT_TRUE(requester.rest_if_silent(false));
  requester.withdraw([](PcbId) {});
  feed_ack(0xffffff);
  EXPECT_FALSE(requester.is_held());
  env.sent.clear();
  post_and_run(RequestKind::kRead, 100);
  expect_sent({"READ_REQ 0 1000+100 ?"});
  EXPECT_FALSE(requester.rest_if_silent(false));
  feed_read(Opcode::kRcReadResponseOnly, 0, 100);
  expect_done({"1 ok"});
}

/// If all packets of a write are lost, the write fails after its retries. Repeated acknowledgements
/// of an earlier request do not prolong it.
TEST_F(RequesterTest, WhatIsSaidAgainIsNoAnswerToAWrite) {
  post_and_run(RequestKind::kSend, 1);
  feed_ack(0);
  post_and_run(RequestKind::kWrite, 100);
  for (unsigned tries = 0; tries <= attributes.retry_count; ++tries) {
    pass(kTimeout);
    feed_ack(0);
  }
  expect_done({"0 ok", "1 retry-exceeded"});
}

/// Without a path to the peer, the requester counts it as silent without a retry.
TEST_F(RequesterTest, WhoCannotBeReachedIsSilentAtOnce) {
  EXPECT_FALSE(requester.rest_if_silent(true)) << "nothing was sent";
  post_and_run(RequestKind::kSend, 1);
  EXPECT_TRUE(requester.rest_if_silent(true));
  EXPECT_EQ(requester.deadline(), now + kTimeout);
}

/// They have the numbers that they had when they come again.
TEST_F(RequesterTest, WhatWaitsForAFenceCanBeWithdrawnAlone) {
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kRead, 300);
  EXPECT_EQ(requester.progress().next, SendObstacle::kNone);
  EXPECT_TRUE(requester.progress().moved);
  Request fenced = make(RequestKind::kWrite, 300);
  fenced.fence = true;
  post(fenced);
  post_and_run(RequestKind::kSend, 1);
  expect_sent({"SEND_ONLY 0 [0,1) ?", "READ_REQ 1 1000+300 ?"});
  EXPECT_FALSE(requester.progress().moved);
  EXPECT_EQ(requester.progress().next, SendObstacle::kOrder);
  std::vector<std::uint32_t> withdrawn;
  requester.withdraw_unsent([&](PcbId pcb) { withdrawn.push_back(pcb.value); });
  EXPECT_EQ(withdrawn, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(requester.progress().next, SendObstacle::kOrder);
  expect_progress(SendObstacle::kOrder, 0, 3);
  EXPECT_FALSE(run());
  requester.withdraw_unsent([](PcbId) { ADD_FAILURE() << "they are gone"; });
  feed_ack(0);
  feed_read(Opcode::kRcReadResponseFirst, 1, 256);
  EXPECT_EQ(requester.progress().next, SendObstacle::kOrder);
  feed_read(Opcode::kRcReadResponseLast, 2, 44);
  EXPECT_EQ(requester.progress().next, SendObstacle::kNone);
  expect_done({"0 ok", "1 ok"});
  post(fenced);
  run();
  expect_sent({"WRITE_FIRST 3 1000+300 [0,256)", "WRITE_LAST 4 [256,300) ?"});
  EXPECT_EQ(requester.sent().sequence, Psn(3));
}

/// Only what was never sent goes: the peer may have executed the others.
TEST_F(RequesterTest, WhatWasSentStaysThoughItIsToBeSentAgain) {
  post_and_run(RequestKind::kRead, 300);
  post_and_run(RequestKind::kSend, 1);
  Request fenced = make(RequestKind::kWrite, 300);
  fenced.fence = true;
  post(fenced);
  run();
  env.sent.clear();
  now += kTimeout;
  requester.expire(env, now);
  requester.withdraw_unsent([](PcbId pcb) { EXPECT_EQ(pcb.value, 2u); });
  run();
  expect_sent({"READ_REQ 0 1000+300 ?"});
  EXPECT_EQ(requester.progress().next, SendObstacle::kWindow);
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  feed_read(Opcode::kRcReadResponseLast, 1, 44);
  feed_ack(2);
  expect_done({"0 ok", "1 ok"});
  EXPECT_EQ(requester.sent().psn, Psn(3)) << "of the one that was withdrawn";
}

/// The first packet of a message that the peer may have no receive for is a probe.
TEST_F(RequesterTest, WhatWaitsForCreditsCanBeWithdrawnAlone) {
  post_and_run(RequestKind::kSend, 1);
  feed(Opcode::kRcAck, 0, wire::kSyndromeAck | 1, 0, 1);  // one more
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  expect_sent({"SEND_ONLY 0 [0,1) ?", "SEND_ONLY 1 [0,1) ?"});
  EXPECT_EQ(requester.progress().next, SendObstacle::kReceiver);
  requester.withdraw_unsent([](PcbId pcb) { EXPECT_EQ(pcb.value, 2u); });
  EXPECT_EQ(requester.progress().next, SendObstacle::kReceiver);
  feed(Opcode::kRcAck, 1, wire::kSyndromeAck, 0, 2);
  EXPECT_EQ(requester.progress().next, SendObstacle::kNone) << "it may go as a probe";
}

TEST_F(RequesterTest, AMessageThatIsHalfSentIsFinished) {
  post(RequestKind::kWrite, 600);
  post(RequestKind::kSend, 1);
  run(1);
  EXPECT_EQ(requester.progress().half_sent, PcbId(0));
  EXPECT_EQ(requester.progress().next, SendObstacle::kNone);
  requester.withdraw_unsent([](PcbId pcb) { EXPECT_EQ(pcb.value, 1u); });
  run();
  expect_sent(
      {"WRITE_FIRST 0 1000+600 [0,256)", "WRITE_MIDDLE 1 [256,512)", "WRITE_LAST 2 [512,600) ?"});
  EXPECT_EQ(requester.progress().half_sent, SendQueue::kEnd);
  feed_ack(2);
  EXPECT_EQ(requester.sent().psn, Psn(3)) << "of the one that was withdrawn";
}

/// The peer has taken all but the last packet. A repeated acknowledgement of these packets does not
/// count as progress.
TEST_F(RequesterTest, AWithdrawnWriteWithImmediateGoesOnWithItsLastPacket) {
  attributes.rnr_retry = 2;
  start_at(0);
  post_and_run(RequestKind::kWriteImm, 600);
  for (int i = 0; i < 2; ++i) {
    feed_nak(2, wire::kSyndromeRnr | 1);
    expect_done({});
    requester.withdraw([](PcbId) {});
    env.sent.clear();
    pass(microseconds(10));
    post_and_run(RequestKind::kWriteImm, 600);
    expect_sent({"WRITE_LAST_IMM 2 [512,600) imm 0 ?"});
  }
  feed_nak(2, wire::kSyndromeRnr | 1);
  expect_done({"2 rnr-retry-exceeded"});
}

/// Its program has made it another: shorter than what the peer has taken.
TEST_F(RequesterTest, AWithdrawnRequestThatComesShorterIsANewOne) {
  post_and_run(RequestKind::kWriteImm, 600);
  feed_nak(2, wire::kSyndromeRnr | 1);
  requester.withdraw([](PcbId) {});
  pass(microseconds(10));
  env.sent.clear();
  post_and_run(RequestKind::kSend, 100);
  expect_sent({"SEND_ONLY 2 [0,100) ?"});
  feed_ack(2);
  expect_done({"1 ok"});
}

/// A retry has overtaken the refusal: the peer has executed all, and says so from now on.
TEST_F(RequesterTest, WithdrawnRequestsMayHaveBeenExecuted) {
  for (int i = 0; i < 3; ++i) post_and_run(RequestKind::kSend, 1);
  feed_nak(0, wire::kSyndromeRnr | 1);
  requester.withdraw([](PcbId) {});
  feed_ack(2);
  expect_done({});
  pass(microseconds(10));
  for (const char* done : {"3 ok", "4 ok", "5 ok"}) {
    post_and_run(RequestKind::kSend, 1);  // alone, and taken for a duplicate
    feed_ack(2);
    expect_done({done});
  }
  feed_nak(2, wire::kSyndromeRemoteAccess);
  expect_events({});
}

/// What a peer says of requests that are not here ends nothing but those that are.
TEST_F(RequesterTest, RefusalsOfWithdrawnRequestsAreGhosts) {
  for (int i = 0; i < 3; ++i) post_and_run(RequestKind::kSend, 1);
  feed_nak(0, wire::kSyndromeRnr | 1);
  requester.withdraw([](PcbId) {});
  pass(microseconds(10));
  for (const char* done : {"3 ok", "4 ok"}) {
    post_and_run(RequestKind::kSend, 1);
    feed_nak(2, wire::kSyndromeRemoteAccess);
    expect_done({done});
    feed_nak(2, wire::kSyndromeRnr | 1);
    feed_read(Opcode::kRcReadResponseOnly, 2, 1);
    feed(Opcode::kRcAtomicAck, 2);
  }
  EXPECT_FALSE(requester.is_held());
  EXPECT_EQ(requester.deadline(), kNever);
  expect_events({});
}

// --- responses

TEST_F(RequesterTest, LostResponseIsAnImpliedNak) {
  post_and_run(RequestKind::kRead, 1000);
  expect_sent({"READ_REQ 0 1000+1000 ?"});
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  feed_read(Opcode::kRcReadResponseMiddle, 2, 256);  // 1 is missing
  feed_read(Opcode::kRcReadResponseLast, 3, 232);    // no second retry for the same gap
  run();
  expect_sent({"READ_REQ 1 1100+744 ?"});
  expect_count(Count::kImpliedNak, 1);
  feed_read(Opcode::kRcReadResponseFirst, 1, 256);
  feed_read(Opcode::kRcReadResponseMiddle, 2, 256);
  feed_read(Opcode::kRcReadResponseLast, 3, 232);
  expect_done({"0 ok"});
  expect_stored({"response 0 [0,256)", "response 0 [256,512)", "response 0 [512,768)",
                 "response 0 [768,1000)"});
}

TEST_F(RequesterTest, AcknowledgementBeyondAReadIsAnImpliedNak) {
  post(RequestKind::kRead, 1);
  post(RequestKind::kSend, 1);
  run();
  env.sent.clear();
  feed_ack(1);
  run();
  expect_done({});
  expect_sent({"READ_REQ 0 1000+1 ?", "SEND_ONLY 1 [0,1) ?"});
  expect_count(Count::kImpliedNak, 1);
  feed_read(Opcode::kRcReadResponseOnly, 0, 1);
  feed_ack(1);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, AtomicResponseSkippedIsAnImpliedNak) {
  post(RequestKind::kFetchAdd, 8);
  post(RequestKind::kFetchAdd, 8);
  run();
  env.sent.clear();
  feed(Opcode::kRcAtomicAck, 1);
  run();
  expect_sent({"FETCH_ADD 0 1000 0,0 ?", "FETCH_ADD 1 1000 0,0 ?"});
  feed(Opcode::kRcAtomicAck, 0);
  feed(Opcode::kRcAtomicAck, 1);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, TimeoutInAReadAsksForTheRest) {
  post_and_run(RequestKind::kRead, 1000);
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  env.sent.clear();
  pass(kTimeout);
  expect_sent({"READ_REQ 1 1100+744 ?"});
}

TEST_F(RequesterTest, ResponseAcknowledgesSendsBeforeIt) {
  post(RequestKind::kSend, 1);
  post(RequestKind::kRead, 1);
  run();
  feed_read(Opcode::kRcReadResponseOnly, 1, 1);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, LateAnswersAfterGoingBackStillCount) {
  attributes.max_rd_atomic = 1;
  start_at(0);
  post(RequestKind::kRead, 300);
  post(RequestKind::kRead, 1);
  run();
  env.sent.clear();
  now += kTimeout;
  requester.expire(env, now);  // the cursor is back, nothing sent yet
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  feed_read(Opcode::kRcReadResponseLast, 1, 44);
  expect_done({"0 ok"});
  run();
  expect_sent({"READ_REQ 2 1000+1 ?"});
}

TEST_F(RequesterTest, ResponsesThatDoNotFitAreFatal) {
  struct Case {
    Opcode opcode;
    std::size_t payload;
    std::uint8_t syndrome;
  };
  constexpr std::uint8_t kGood = wire::kSyndromeNoCreditLimit;
  const Case cases[] = {
      {Opcode::kRcReadResponseFirst, 255, kGood}, {Opcode::kRcReadResponseFirst, 257, kGood},
      {Opcode::kRcReadResponseLast, 256, kGood},  {Opcode::kRcReadResponseOnly, 256, kGood},
      {Opcode::kRcReadResponseMiddle, 0, kGood},  {Opcode::kRcAtomicAck, 0, kGood},
      {Opcode::kRcReadResponseFirst, 256, 0x62},
  };
  for (const Case& c : cases) {
    env = FakeEnvironment();
    number = 0;
    start_at(0);
    post_and_run(RequestKind::kRead, 300);
    feed(c.opcode, 0, c.syndrome, c.payload);
    expect_done({"0 bad-response"});
    expect_events({"error"});
    expect_stored({});
  }
}

TEST_F(RequesterTest, ResponseToASendIsFatal) {
  post_and_run(RequestKind::kSend, 1);
  feed_read(Opcode::kRcReadResponseOnly, 0, 1);
  expect_done({"0 bad-response"});
}

TEST_F(RequesterTest, ResponseWithoutRoomEndsWithTheLocalCause) {
  env.local_access = Verdict::kLocalProtection;
  post_and_run(RequestKind::kRead, 1);
  feed_read(Opcode::kRcReadResponseOnly, 0, 1);
  expect_done({"0 local-protection"});
  expect_events({"error"});
}

}  // namespace
}  // namespace softhca::transport
