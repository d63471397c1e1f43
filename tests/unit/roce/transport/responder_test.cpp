// SPDX-License-Identifier: Apache-2.0

// What a responder executes and answers: order, gaps, duplicates.
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

TEST_F(ResponderTest, PlacesASendAndAcknowledgesItsLast) {
  env.receives = {600};
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcSendMiddle, 1, 256);
  EXPECT_FALSE(responder.pending());
  expect_received({});
  wire::Headers h = make(Opcode::kRcSendLast, 2);
  h.solicited = true;
  feed(h, 88);
  expect_stored({"receive 0 [0,256)", "receive 0 [256,512)", "receive 0 [512,600)"});
  expect_received({"0 ok 600 bytes !"});
  EXPECT_TRUE(responder.pending());
  expect_answer({"ACK 2 msn 1"});
  EXPECT_FALSE(responder.pending());
  expect_events({"established"});
}

TEST_F(ResponderTest, AcknowledgementsOfAStepAreOne) {
  env.receives = {1, 1, 1};
  for (std::uint32_t psn = 0; psn < 3; ++psn) feed(Opcode::kRcSendOnly, psn, 1);
  expect_answer({"ACK 2 msn 3"});
  expect_count(Count::kAcksSent, 1);
}

TEST_F(ResponderTest, AcknowledgesInsideAMessageWhenAsked) {
  feed(Opcode::kRcWriteFirst, 0, 256, 768);
  expect_answer({});
  wire::Headers h = make(Opcode::kRcWriteMiddle, 1);
  h.ack_request = true;
  feed(h, 256);
  expect_answer({"ACK 1 msn 0"});
}

TEST_F(ResponderTest, TellsItsReceivesAsCredits) {
  env.receives = {1};
  env.credits = 5;
  feed(Opcode::kRcSendOnly, 0, 1);
  expect_answer({"ACK 0 msn 1 credits 4"});
}

TEST_F(ResponderTest, SendKinds) {
  env.receives = {10, 10, 10};
  wire::Headers h = make(Opcode::kRcSendOnlyImm, 0);
  h.imm = 0xbeef;
  feed(h, 3);
  h = make(Opcode::kRcSendOnlyInvalidate, 1);
  h.invalidate = Rkey(0x99);
  feed(h, 0);
  feed(Opcode::kRcSendOnly, 2, 0);
  expect_received({"0 ok 3 bytes imm beef", "1 ok 0 bytes key 99", "2 ok 0 bytes"});
  expect_stored({"receive 0 [0,3)", "invalidate 99"});
}

TEST_F(ResponderTest, KeyThatCannotBeInvalidated) {
  env.receives = {10};
  env.invalidation = Verdict::kRemoteAccess;
  feed(Opcode::kRcSendOnlyInvalidate, 0, 1);
  expect_answer({"NAK 62 0 msn 0"});
  expect_received({"0 remote-access"});
}

TEST_F(ResponderTest, WritesGoWhereTheRethSays) {
  feed(Opcode::kRcWriteFirst, 0, 256, 600);
  feed(Opcode::kRcWriteMiddle, 1, 256);
  feed(Opcode::kRcWriteLast, 2, 88);
  feed(Opcode::kRcWriteOnly, 3, 0, 0);
  expect_stored({"write 1000+256", "write 1100+256", "write 1200+88"});
  expect_received({});
  expect_answer({"ACK 3 msn 2"});
  expect_count(Count::kWriteRequests, 2);
}

TEST_F(ResponderTest, WriteWithImmediateDrawsAtItsLastPacket) {
  feed(Opcode::kRcWriteFirst, 0, 256, 300);
  wire::Headers h = make(Opcode::kRcWriteLastImm, 1);
  h.imm = 0x11;
  feed(h, 44);
  expect_stored({"write 1000+256"});  // the last one waits for its receive
  expect_answer({"RNR 12 1 msn 0"});
  env.receives = {0};
  feed(h, 44);
  expect_stored({"write 1100+44"});
  expect_received({"0 ok 300 bytes written imm 11"});
  expect_answer({"ACK 1 msn 1"});
  expect_count(Count::kWriteRequests, 1);
}

TEST_F(ResponderTest, ReadIsAnsweredInPackets) {
  feed_read(0, 600);
  expect_answer({"READ_RESP_FIRST 0 1000+256 msn 1", "READ_RESP_MIDDLE 1 1100+256",
                 "READ_RESP_LAST 2 1200+88 msn 1"});
  feed_read(3, 256);
  feed_read(4, 0);
  expect_answer({"READ_RESP_ONLY 3 1000+256 msn 3", "READ_RESP_ONLY 4 msn 3"});
  expect_count(Count::kReadRequests, 3);
}

TEST_F(ResponderTest, BudgetAndPortEndARun) {
  feed_read(0, 1024);
  EXPECT_TRUE(run(1));
  expect_sent({"READ_RESP_FIRST 0 1000+256 msn 1"});
  env.port_buffers = 1;
  EXPECT_TRUE(run());
  expect_sent({"READ_RESP_MIDDLE 1 1100+256"});
  env.port_buffers = 0;
  EXPECT_TRUE(run());
  env.port_buffers = 2;
  EXPECT_FALSE(run());
  expect_sent({"READ_RESP_MIDDLE 2 1200+256", "READ_RESP_LAST 3 1300+256 msn 1"});
}

TEST_F(ResponderTest, AcknowledgementWaitsForPortBuffers) {
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  env.port_buffers = 0;
  EXPECT_TRUE(run());
  EXPECT_TRUE(responder.pending());
  env.port_buffers = 1;
  expect_answer({"ACK 0 msn 1"});
}

TEST_F(ResponderTest, AtomicsAnswerTheOldValue) {
  env.counter = 7;
  wire::Headers h = make(Opcode::kRcFetchAdd, 0);
  h.swap_add = 5;
  feed(h);
  expect_answer({"ATOMIC_ACK 0 msn 1 =7"});
  h = make(Opcode::kRcCompareSwap, 1);
  h.compare = 12;
  h.swap_add = 100;
  feed(h);
  expect_answer({"ATOMIC_ACK 1 msn 2 =12"});
  EXPECT_EQ(env.counter, 100u);
  expect_count(Count::kAtomicRequests, 2);
}

TEST_F(ResponderTest, ResponsesAndAcknowledgementsKeepTheirOrder) {
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  feed_read(1, 300);
  feed(Opcode::kRcFetchAdd, 3);
  feed(Opcode::kRcWriteOnly, 4, 1, 1);
  expect_answer({"READ_RESP_FIRST 1 1000+256 msn 4", "READ_RESP_LAST 2 1100+44 msn 4",
                 "ATOMIC_ACK 3 msn 4 =0", "ACK 4 msn 4"});
}

TEST_F(ResponderTest, PsnsWrap) {
  start_at(0xffffff);
  feed(Opcode::kRcWriteFirst, 0xffffff, 256, 257);
  feed(Opcode::kRcWriteLast, 0, 1);
  expect_answer({"ACK 0 msn 1"});
  feed(Opcode::kRcWriteOnly, 0xffffff, 1, 1);
  expect_count(Count::kDuplicateRequests, 1);
  expect_answer({"ACK 0 msn 1"});
}

TEST_F(ResponderTest, ReadAcrossTheWrap) {
  start_at(0xffffff);
  feed_read(0xffffff, 700);
  expect_answer({"READ_RESP_FIRST 16777215 1000+256 msn 1", "READ_RESP_MIDDLE 0 1100+256",
                 "READ_RESP_LAST 1 1200+188 msn 1"});
  feed_read(0, 444, 256);
  expect_answer({"READ_RESP_FIRST 0 1100+256 msn 1", "READ_RESP_LAST 1 1200+188 msn 1"});
}

// --- gaps

TEST_F(ResponderTest, OneNakForAGap) {
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  feed(Opcode::kRcWriteOnly, 2, 1, 1);
  feed(Opcode::kRcWriteOnly, 3, 1, 1);
  expect_answer({"NAK 60 1 msn 1"});
  feed(Opcode::kRcWriteOnly, 4, 1, 1);
  expect_answer({});
  expect_count(Count::kOutOfSequence, 3);
  expect_count(Count::kSequenceNakSent, 1);
  for (std::uint32_t psn = 1; psn < 5; ++psn) feed(Opcode::kRcWriteOnly, psn, 1, 1);
  expect_answer({"ACK 4 msn 5"});
  feed(Opcode::kRcWriteOnly, 6, 1, 1);
  expect_answer({"NAK 60 5 msn 5"});
}

TEST_F(ResponderTest, NakAgainWhenTheRetryWasLostToo) {
  feed(Opcode::kRcWriteOnly, 1, 1, 1);
  feed(Opcode::kRcWriteOnly, 2, 1, 1);
  expect_answer({"NAK 60 0 msn 0"});
  feed(Opcode::kRcWriteOnly, 1, 1, 1);  // the peer went back, and 0 was lost again
  feed(Opcode::kRcWriteOnly, 2, 1, 1);
  expect_answer({"NAK 60 0 msn 0"});
}

TEST_F(ResponderTest, PacketsSwappedInAStepAreNakedWhereTheyAreMissing) {
  feed(Opcode::kRcWriteOnly, 1, 1, 1);
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  expect_answer({"NAK 60 1 msn 1"});  // 1 was dropped when it came
  feed(Opcode::kRcWriteOnly, 1, 1, 1);
  expect_answer({"ACK 1 msn 2"});
}

TEST_F(ResponderTest, NakFollowsTheResponsesBeforeIt) {
  feed_read(0, 1);
  feed(Opcode::kRcWriteOnly, 2, 1, 1);
  expect_answer({"READ_RESP_ONLY 0 1000+1 msn 1", "NAK 60 1 msn 1"});
}

// --- receiver not ready

TEST_F(ResponderTest, RnrThenSilenceUntilTheRetry) {
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcSendLast, 1, 1);
  expect_answer({"RNR 12 0 msn 0"});
  feed(Opcode::kRcWriteOnly, 2, 1, 1);
  expect_answer({});
  expect_count(Count::kRnrNakSent, 1);
  expect_count(Count::kOutOfSequence, 0);
  env.receives = {300};
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcSendLast, 1, 1);
  expect_answer({"ACK 1 msn 1"});
  expect_received({"0 ok 257 bytes"});
}

TEST_F(ResponderTest, RnrAgainWhenTheRetryFindsNoneEither) {
  feed(Opcode::kRcSendOnly, 0, 1);
  expect_answer({"RNR 12 0 msn 0"});
  feed(Opcode::kRcSendOnly, 0, 1);
  expect_answer({"RNR 12 0 msn 0"});
}

// --- duplicates

TEST_F(ResponderTest, DuplicateSendIsAcknowledgedNotExecuted) {
  env.receives = {10, 10};
  feed(Opcode::kRcSendOnly, 0, 1);
  feed(Opcode::kRcWriteOnly, 1, 1, 1);
  expect_answer({"ACK 1 msn 2"});
  expect_received({"0 ok 1 bytes"});
  expect_stored({"receive 0 [0,1)", "write 1000+1"});
  feed(Opcode::kRcSendOnly, 0, 1);
  feed(Opcode::kRcWriteOnly, 1, 1, 1);
  expect_answer({"ACK 1 msn 2"});
  expect_received({});
  expect_stored({});
  expect_count(Count::kDuplicateRequests, 2);
  expect_count(Count::kWriteRequests, 1);
}

TEST_F(ResponderTest, DuplicateReadIsExecutedAgain) {
  feed_read(0, 600);
  run();
  env.sent.clear();
  feed_read(0, 600);
  expect_answer({"READ_RESP_FIRST 0 1000+256 msn 1", "READ_RESP_MIDDLE 1 1100+256",
                 "READ_RESP_LAST 2 1200+88 msn 1"});
  feed_read(1, 344, 256);
  expect_answer({"READ_RESP_FIRST 1 1100+256 msn 1", "READ_RESP_LAST 2 1200+88 msn 1"});
  feed_read(2, 88, 512);
  expect_answer({"READ_RESP_ONLY 2 1200+88 msn 1"});
  feed_read(0, 200);  // less than before
  expect_answer({"READ_RESP_ONLY 0 1000+200 msn 1"});
}

TEST_F(ResponderTest, DuplicateReadRestartsOneUnderWay) {
  feed_read(0, 600);
  run(2);
  env.sent.clear();
  feed_read(1, 344, 256);
  expect_answer({"READ_RESP_FIRST 1 1100+256 msn 1", "READ_RESP_LAST 2 1200+88 msn 1"});
}

TEST_F(ResponderTest, DuplicateReadThatDiffersIsDropped) {
  feed_read(0, 600);
  run();
  env.sent.clear();
  feed_read(0, 601);       // longer
  feed_read(1, 600, 256);  // beyond the end
  feed_read(1, 344, 255);  // elsewhere
  feed_read(2, 0, 512);    // empty
  wire::Headers h = make(Opcode::kRcReadRequest, 0);
  h.dma_length = 600;
  h.rkey = Rkey(1);
  feed(h);  // another key
  feed(Opcode::kRcFetchAdd, 0);
  expect_answer({});
  expect_count(Count::kDuplicateRequests, 6);
  expect_events({"established"});
}

TEST_F(ResponderTest, DuplicateAtomicIsAnsweredFromMemory) {
  wire::Headers h = make(Opcode::kRcFetchAdd, 0);
  h.swap_add = 5;
  feed(h);
  expect_answer({"ATOMIC_ACK 0 msn 1 =0"});
  feed(h);
  expect_answer({"ATOMIC_ACK 0 msn 1 =0"});
  EXPECT_EQ(env.counter, 5u);
}

TEST_F(ResponderTest, RemembersAsManyAsAgreed) {
  for (std::uint32_t psn = 0; psn < 3; ++psn) {
    feed(Opcode::kRcFetchAdd, psn);
    run();
  }
  env.sent.clear();
  feed(Opcode::kRcFetchAdd, 0);  // forgotten
  expect_answer({});
  feed(Opcode::kRcFetchAdd, 1);
  feed(Opcode::kRcFetchAdd, 2);
  expect_answer({"ATOMIC_ACK 1 msn 3 =0", "ATOMIC_ACK 2 msn 3 =0"});
}

TEST_F(ResponderTest, NewReadTakesThePlaceOfAReplay) {
  feed_read(0, 1);
  feed_read(1, 1);
  run();
  env.sent.clear();
  feed_read(0, 1);
  feed_read(2, 1);
  expect_answer({"READ_RESP_ONLY 2 1000+1 msn 3"});
}

TEST_F(ResponderTest, MoreReadsThanAgreedAreRefused) {
  feed_read(0, 1);
  feed_read(1, 1);
  feed_read(2, 1);
  expect_answer(
      {"READ_RESP_ONLY 0 1000+1 msn 2", "READ_RESP_ONLY 1 1000+1 msn 2", "NAK 61 2 msn 2"});
}

TEST_F(ResponderTest, NoReadsWithoutDepth) {
  attributes.max_dest_rd_atomic = 0;
  start_at(0);
  feed_read(0, 1);
  expect_answer({"NAK 61 0 msn 0"});
}

}  // namespace
}  // namespace softhca::transport
