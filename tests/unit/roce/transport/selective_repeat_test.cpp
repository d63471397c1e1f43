// SPDX-License-Identifier: Apache-2.0

// Selective repeat: what a responder keeps and a requester need not send again.
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

class KeepingResponder : public ResponderTest {
 protected:
  KeepingResponder() {
    kept.open(64);
    attributes.out_of_order = 8;
    responder.configure(attributes, {replays.places(), kept, account});
    responder.reset(Psn(0));
    env.receives = {64, 64};
  }
  ~KeepingResponder() override { responder.release(); }

  void feed_write(std::uint32_t psn) { feed(Opcode::kRcWriteOnly, psn, 1, 1); }

  KeptStore kept;
  KeptAccount account;
};

TEST_F(KeepingResponder, WhatComesBehindAGapTakesEffectInItsTurn) {
  feed_write(0);
  feed(Opcode::kRcSendOnly, 2, 4);
  feed_write(3);
  expect_answer({"NAK 60 1 msn 1"});
  expect_stored({"write 1000+1"});
  expect_received({});
  feed_write(1);
  expect_answer({"ACK 3 msn 4"});
  expect_stored({"write 1000+1", "receive 0 [0,4)", "write 1000+1"});
  expect_received({"0 ok 4 bytes"});
  EXPECT_EQ(responder.kept(), 0u);
}

TEST_F(KeepingResponder, AnotherGapIsToldAsSoonAsTheFirstIsFilled) {
  for (const std::uint32_t psn : {1u, 3u, 4u, 6u}) feed_write(psn);
  expect_answer({"NAK 60 0 msn 0"});
  feed_write(0);
  expect_answer({"NAK 60 2 msn 2"});
  expect_answer({});
  feed_write(2);
  expect_answer({"NAK 60 5 msn 5"});
  feed_write(5);
  expect_answer({"ACK 6 msn 7"});
}

TEST_F(KeepingResponder, WhatComesAgainFromAPeerThatGoesBackIsExecutedOnce) {
  for (const std::uint32_t psn : {1u, 2u}) feed_write(psn);
  expect_answer({"NAK 60 0 msn 0"});
  for (const std::uint32_t psn : {0u, 1u, 2u, 3u}) feed_write(psn);
  expect_answer({"ACK 3 msn 4"});
  EXPECT_EQ(env.stored.size(), 4u);
  EXPECT_EQ(responder.kept(), 0u);
}

TEST_F(KeepingResponder, NakAgainWhenTheRetryWasLostToo) {
  for (const std::uint32_t psn : {1u, 2u}) feed_write(psn);
  expect_answer({"NAK 60 0 msn 0"});
  for (const std::uint32_t psn : {1u, 2u}) feed_write(psn);
  expect_answer({"NAK 60 0 msn 0"});
}

TEST_F(KeepingResponder, WhatIsTooFarAheadIsDropped) {
  feed_write(8);
  feed_write(9);
  EXPECT_EQ(responder.kept(), 1u);
}

TEST_F(KeepingResponder, ARefusalDropsAllBehindIt) {
  env.receives.clear();
  feed_write(1);
  feed(Opcode::kRcSendOnly, 2, 4);
  feed_write(3);
  run();
  env.sent.clear();
  feed_write(0);
  expect_answer({"RNR 12 2 msn 2"});
  EXPECT_EQ(responder.kept(), 0u);
  feed_write(3);
  EXPECT_EQ(responder.kept(), 0u);
  expect_nothing_sent();
}

TEST_F(KeepingResponder, AnErrorComesInItsTurn) {
  feed(Opcode::kRcSendMiddle, 1, 256);  // of no message
  feed_write(2);
  expect_answer({"NAK 60 0 msn 0"});
  expect_events({});
  feed_write(0);
  expect_answer({"NAK 61 1 msn 1"});
  expect_events({"established", "error invalid-request"});
  expect_stored({"write 1000+1"});
  EXPECT_EQ(responder.kept(), 0u);
}

TEST_F(KeepingResponder, NumbersThatAReadTakesAreNotOfOtherRequests) {
  feed_write(1);
  feed_write(3);
  feed_write(4);
  run();
  env.sent.clear();
  feed_read(0, 4 * 256);
  run();
  expect_stored({"write 1000+1"});  // 4, behind the read
  EXPECT_EQ(responder.kept(), 0u);
  EXPECT_EQ(responder.position().expected, Psn(5));
}

TEST_F(KeepingResponder, ItsTurnEndsWithItsBudget) {
  for (const std::uint32_t psn : {1u, 2u, 3u, 4u}) feed_write(psn);
  run();
  env.sent.clear();
  feed_write(0);
  EXPECT_TRUE(run(2));
  expect_sent({"ACK 2 msn 3"});
  EXPECT_TRUE(responder.pending());
  EXPECT_FALSE(run(2));
  expect_sent({"ACK 4 msn 5"});
}

TEST_F(KeepingResponder, ResetAndFlushForgetIt) {
  feed_write(1);
  responder.reset(Psn(0));
  EXPECT_EQ(account.held.value(), 0u);
  feed_write(1);
  responder.flush(env);
  EXPECT_EQ(account.held.value(), 0u);
}

/// A part of a read that is being answered is asked for once more, and what follows still comes.
TEST_F(KeepingResponder, APartThatIsAskedForAgainDoesNotCutTheRest) {
  feed_read(0, 6 * 256);
  run(4);
  env.sent.clear();
  feed_read(1, 256, 256);
  run();
  expect_sent({"READ_RESP_ONLY 1 1100+256 msn 1", "READ_RESP_MIDDLE 4 1400+256",
               "READ_RESP_LAST 5 1500+256 msn 1"});
}

// --- requesters

class SelectiveRequester : public RequesterTest {
 protected:
  SelectiveRequester() {
    attributes.timeout = 14;
    attributes.selective_repeat = true;
    start_at(0);
  }
  void send_writes(int count) {
    for (int i = 0; i < count; ++i) post(RequestKind::kWrite, 1);
    run();
    env.sent.clear();
  }
  void expect_resent(const Lines& lines, Where at = Where::current()) {
    run();
    expect_sent(lines, at);
  }
  static std::string write(int psn) {
    return "WRITE_ONLY " + std::to_string(psn) + " 1000+1 [0,1) ?";
  }
  /// The peer shows that it keeps: PSN 0 to 2 are done.
  void meet_keeper() {
    send_writes(3);
    feed_nak(0, wire::kSyndromeSequence);
    run();
    feed_ack(2);
    env.sent.clear();
    env.done.clear();
  }
  /// The round trip is 100 us.
  void measure() {
    post_and_run(RequestKind::kWrite, 1);
    now += microseconds(100);
    feed_ack(0);
    env.sent.clear();
    env.done.clear();
  }
};

TEST_F(SelectiveRequester, OnlyWhatIsMissingIsSentAgainToAPeerThatKeeps) {
  send_writes(5);
  feed_nak(1, wire::kSyndromeSequence);
  expect_done({"0 ok"});
  expect_resent({write(1)});
  feed_ack(4);
  expect_done({"1 ok", "2 ok", "3 ok", "4 ok"});
  expect_resent({});
  expect_count(Count::kSparedPackets, 3);
  expect_count(Count::kRetransmittedPackets, 1);
}

TEST_F(SelectiveRequester, NothingNewGoesUntilThePeerHasShownWhetherItKeeps) {
  send_writes(3);
  feed_nak(0, wire::kSyndromeSequence);
  expect_resent({write(0)});
  post(RequestKind::kWrite, 1);
  expect_resent({});
  feed_ack(2);
  expect_resent({write(3)});
  post(RequestKind::kWrite, 1);
  run();
  env.sent.clear();
  feed_nak(3, wire::kSyndromeSequence);
  post(RequestKind::kWrite, 1);
  expect_resent({write(3), write(5)});  // it is known to keep
}

TEST_F(SelectiveRequester, GoesBackForAPeerThatDiscards) {
  send_writes(4);
  feed_nak(0, wire::kSyndromeSequence);
  expect_resent({write(0)});
  feed_ack(0);  // no more, though more was sent
  expect_resent({write(1), write(2), write(3)});
  feed_nak(1, wire::kSyndromeSequence);
  expect_resent({write(1)});  // one instance may be chance
  feed_nak(2, wire::kSyndromeSequence);
  expect_resent({write(2), write(3)});
  feed_ack(3);
  send_writes(3);
  feed_nak(4, wire::kSyndromeSequence);
  expect_resent({write(4)});
  feed_ack(4);
  expect_resent({write(5), write(6)});
  feed_nak(5, wire::kSyndromeSequence);
  expect_resent({write(5), write(6)});  // three times: the peer does discard
}

TEST_F(SelectiveRequester, GoesBackAtOnceWhereItDoesNotRepeatSelectively) {
  attributes.timeout = 0;  // nothing would find a loss of what is sent again
  start_at(0);
  send_writes(2);
  feed_nak(0, wire::kSyndromeSequence);
  expect_resent({write(0), write(1)});
}

TEST_F(SelectiveRequester, ManyLostInARowAreSentFourTimesAsManyAtATime) {
  meet_keeper();
  send_writes(12);
  feed_nak(3, wire::kSyndromeSequence);
  expect_resent({write(3)});
  feed_nak(4, wire::kSyndromeSequence);
  EXPECT_TRUE(env.done.size() == 1);
  run();
  EXPECT_EQ(env.sent.size(), 4u);
  env.sent.clear();
  feed_ack(14);
  send_writes(3);
  feed_nak(15, wire::kSyndromeSequence);
  expect_resent({write(15)});
}

TEST_F(SelectiveRequester, TheSameNakTwiceIsActedOnOnce) {
  send_writes(3);
  feed_nak(0, wire::kSyndromeSequence);
  feed_nak(0, wire::kSyndromeSequence);
  expect_resent({write(0)});
  feed_nak(0, wire::kSyndromeSequence);
  expect_resent({});
}

TEST_F(SelectiveRequester, AFewLossesLeaveTheFlightAsItIsAndManyHalveIt) {
  attributes.psn_window = 64;
  start_at(0);
  meet_keeper();
  post(RequestKind::kWrite, 1000 * 256);
  run();
  feed_ack(37);
  env.sent.clear();
  run();
  EXPECT_EQ(env.sent.size(), 64u);
  env.sent.clear();
  feed_nak(45, wire::kSyndromeSequence);
  run();
  EXPECT_EQ(env.sent.size(), 8u) << "the one, and as many new ones as came";
  env.sent.clear();
  for (const std::uint32_t psn : {55u, 65u, 76u}) feed_nak(psn, wire::kSyndromeSequence);
  run();
  EXPECT_EQ(env.sent.size(), 1u + 41 - 10) << "the last, and as many new ones as came";
  env.sent.clear();
  for (const std::uint32_t psn : {78u, 80u, 82u, 84u, 86u}) feed_nak(psn, wire::kSyndromeSequence);
  run();
  EXPECT_EQ(env.sent.size(), 1u) << "more than an eighth was lost";
}

TEST_F(SelectiveRequester, SilenceOfTwoRoundTripsIsProbed) {
  measure();
  send_writes(3);
  EXPECT_EQ(requester.deadline(), now + microseconds(300));  // 100 and four times a variation of 50
  pass(microseconds(300));
  expect_sent({write(1), write(3)});
  expect_count(Count::kProbes, 1);
  expect_count(Count::kEarlyRetries, 0);
  feed_nak(3, wire::kSyndromeSequence);
  expect_done({"1 ok", "2 ok"});
  expect_resent({write(3)});
}

TEST_F(SelectiveRequester, ProbesGiveWayToRetries) {
  measure();
  send_writes(1);
  pass(microseconds(300));
  pass(microseconds(600));
  expect_sent({write(1), write(1)});
  EXPECT_EQ(requester.deadline(), now + microseconds(100)) << "the early retry, after 1 ms";
  pass(microseconds(100));
  expect_sent({write(1)});
  expect_count(Count::kProbes, 2);
  expect_count(Count::kEarlyRetries, 1);
}

TEST_F(SelectiveRequester, AProbeRepeatsWhatWasSentAgainAndLost) {
  measure();
  send_writes(3);
  feed_nak(1, wire::kSyndromeSequence);
  expect_resent({write(1)});
  pass(microseconds(300));
  expect_sent({write(1)});
  feed_ack(3);
  expect_done({"1 ok", "2 ok", "3 ok"});
}

TEST_F(SelectiveRequester, ResponsesBehindAMissingOneAreTaken) {
  post_and_run(RequestKind::kRead, 5 * 256);
  post_and_run(RequestKind::kWrite, 1);
  env.sent.clear();
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  feed_read(Opcode::kRcReadResponseMiddle, 2, 256);
  expect_resent({"READ_REQ 1 1100+256 ?"});
  feed_read(Opcode::kRcReadResponseMiddle, 3, 256);
  feed_read(Opcode::kRcReadResponseLast, 4, 256);
  feed_ack(5);
  expect_resent({});
  expect_done({});
  feed_read(Opcode::kRcReadResponseOnly, 1, 256);
  expect_done({"0 ok", "1 ok"});
  expect_stored({"response 0 [0,256)", "response 0 [512,768)", "response 0 [768,1024)",
                 "response 0 [1024,1280)", "response 0 [256,512)"});
}

TEST_F(SelectiveRequester, AsksForEachGapOfAReadAndForItsEnd) {
  post_and_run(RequestKind::kRead, 6 * 256);
  env.sent.clear();
  feed_read(Opcode::kRcReadResponseMiddle, 1, 256);
  feed_read(Opcode::kRcReadResponseMiddle, 3, 256);
  expect_resent({"READ_REQ 0 1000+256 ?"});
  feed_read(Opcode::kRcReadResponseOnly, 0, 256);
  expect_resent({"READ_REQ 2 1200+256 ?"});
  post_and_run(RequestKind::kWrite, 1);
  env.sent.clear();
  feed_read(Opcode::kRcReadResponseOnly, 2, 256);
  feed_ack(6);  // the responses before it have been sent
  expect_resent({"READ_REQ 4 1400+512 ?"});
  feed_read(Opcode::kRcReadResponseFirst, 4, 256);
  feed_read(Opcode::kRcReadResponseLast, 5, 256);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(SelectiveRequester, ALastResponseInTheMiddleIsAnErrorWhereNoPartWasAskedFor) {
  post_and_run(RequestKind::kRead, 5 * 256);
  feed_read(Opcode::kRcReadResponseLast, 0, 256);
  expect_done({"0 bad-response"});
}

TEST_F(SelectiveRequester, ResponsesThatFitNothingAreNotTaken) {
  post_and_run(RequestKind::kRead, 5 * 256);
  post_and_run(RequestKind::kWrite, 1);
  feed_read(Opcode::kRcReadResponseMiddle, 2, 255);
  feed_read(Opcode::kRcReadResponseMiddle, 5, 256);
  feed(Opcode::kRcAtomicAck, 3);
  expect_stored({});
  expect_events({});
}

TEST_F(SelectiveRequester, ResultsOfAtomicsWaitForThoseBefore) {
  post_and_run(RequestKind::kFetchAdd, 8);
  post_and_run(RequestKind::kFetchAdd, 8);
  env.sent.clear();
  feed(Opcode::kRcAtomicAck, 1);
  expect_done({});
  expect_resent({"FETCH_ADD 0 1000 0,0 ?"});
  feed(Opcode::kRcAtomicAck, 0);
  expect_done({"0 ok", "1 ok"});
}

TEST_F(SelectiveRequester, AGapToldWhileAResponseIsMissingIsFilledAfterIt) {
  meet_keeper();
  post_and_run(RequestKind::kRead, 256);
  send_writes(3);
  feed_nak(5, wire::kSyndromeSequence);  // 4 is done, and so the read
  expect_resent({"READ_REQ 3 1000+256 ?"});
  feed_read(Opcode::kRcReadResponseOnly, 3, 256);
  expect_done({"3 ok", "4 ok"});
  expect_resent({write(5)});
}

TEST_F(SelectiveRequester, RetriesAreCounted) {
  attributes.retry_count = 1;
  start_at(0);
  send_writes(2);
  feed_nak(0, wire::kSyndromeSequence);
  run();
  feed_nak(0, wire::kSyndromeRnr | 1);
  pass(microseconds(10));
  feed_nak(0, wire::kSyndromeSequence);
  feed_nak(0, wire::kSyndromeSequence);
  expect_done({});
}

}  // namespace
}  // namespace softhca::transport
