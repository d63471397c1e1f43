// SPDX-License-Identifier: Apache-2.0

// What a requester sends: segmentation, window, fence, depth, credits.
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

TEST_F(RequesterTest, SegmentsASend) {
  post_and_run(RequestKind::kSend, 600);
  expect_sent({"SEND_FIRST 0 [0,256)", "SEND_MIDDLE 1 [256,512)", "SEND_LAST 2 [512,600) ?"});
  expect_done({});
  feed_ack(2);
  expect_done({"0 ok"});
  expect_progress(SendObstacle::kNone, 0, 0);
  EXPECT_EQ(requester.deadline(), kNever);
}

TEST_F(RequesterTest, WholePacketsHaveNoEmptyLast) {
  post_and_run(RequestKind::kSend, 512);
  expect_sent({"SEND_FIRST 0 [0,256)", "SEND_LAST 1 [256,512) ?"});
  post_and_run(RequestKind::kSend, 256);
  expect_sent({"SEND_ONLY 2 [0,256) ?"});
}

TEST_F(RequesterTest, EmptyMessagesArePackets) {
  post(RequestKind::kSend, 0);
  post(RequestKind::kWrite, 0);
  post(RequestKind::kRead, 0);
  run();
  expect_sent({"SEND_ONLY 0 ?", "WRITE_ONLY 1 1000+0 ?", "READ_REQ 2 1000+0 ?"});
  feed_read(Opcode::kRcReadResponseOnly, 2, 0);
  expect_done({"0 ok", "1 ok", "2 ok"});
  expect_stored({});
}

TEST_F(RequesterTest, ImmediateInvalidateAndSolicitedGoOnTheLastPacket) {
  Request r = make(RequestKind::kSendImm, 300);
  r.imm = 0xabcd;
  r.solicited = true;
  post(r);
  r = make(RequestKind::kSendInvalidate, 3);
  r.rkey = Rkey(0x77);
  post(r);
  r = make(RequestKind::kWriteImm, 257);
  r.imm = 0x1234;
  r.solicited = true;
  post(r);
  r = make(RequestKind::kWrite, 1);
  r.solicited = true;  // means nothing without a receive at the peer
  post(r);
  run();
  expect_sent({"SEND_FIRST 0 [0,256)", "SEND_LAST_IMM 1 [256,300) imm abcd ! ?",
               "SEND_ONLY_INV 2 [0,3) key 77 ?", "WRITE_FIRST 3 1000+257 [0,256)",
               "WRITE_LAST_IMM 4 [256,257) imm 1234 ! ?", "WRITE_ONLY 5 1000+1 [0,1) ?"});
}

TEST_F(RequesterTest, AtomicsCarryTheirOperands) {
  Request r = make(RequestKind::kCompareSwap, 8);
  r.compare_add = 1;
  r.swap = 2;
  post(r);
  r = make(RequestKind::kFetchAdd, 8);
  r.compare_add = 3;
  post(r);
  run();
  expect_sent({"CMP_SWAP 0 1000 2,1 ?", "FETCH_ADD 1 1000 3,0 ?"});
  feed(Opcode::kRcAtomicAck, 0);
  feed(Opcode::kRcAtomicAck, 1);
  expect_stored({"response 0 [0,8)", "response 1 [0,8)"});
  expect_done({"0 ok", "1 ok"});
  EXPECT_EQ(std::to_integer<int>(env.last_payload[0]), 42);
}

TEST_F(RequesterTest, PsnsWrap) {
  start_at(0xfffffe);
  post_and_run(RequestKind::kSend, 1000);
  expect_sent({"SEND_FIRST 16777214 [0,256)", "SEND_MIDDLE 16777215 [256,512)",
               "SEND_MIDDLE 0 [512,768)", "SEND_LAST 1 [768,1000) ?"});
  feed_nak(0xffffff, wire::kSyndromeSequence);
  run();
  expect_sent(
      {"SEND_MIDDLE 16777215 [256,512)", "SEND_MIDDLE 0 [512,768)", "SEND_LAST 1 [768,1000) ?"});
  feed_ack(1);
  expect_done({"0 ok"});
}

TEST_F(RequesterTest, AsksForAcknowledgementNowAndThen) {
  attributes.ack_interval = 2;
  requester.configure(attributes);
  post_and_run(RequestKind::kWrite, 5 * 256);
  expect_sent({"WRITE_FIRST 0 1000+1280 [0,256)", "WRITE_MIDDLE 1 [256,512) ?",
               "WRITE_MIDDLE 2 [512,768)", "WRITE_MIDDLE 3 [768,1024) ?",
               "WRITE_LAST 4 [1024,1280) ?"});
}

TEST_F(RequesterTest, StopsAtTheWindowAndAsksForEveryQuarterOfIt) {
  attributes.psn_window = 8;
  start_at(0);
  post(RequestKind::kSend, 10 * 256);
  EXPECT_FALSE(run());
  expect_sent({"SEND_FIRST 0 [0,256)", "SEND_MIDDLE 1 [256,512) ?", "SEND_MIDDLE 2 [512,768)",
               "SEND_MIDDLE 3 [768,1024) ?", "SEND_MIDDLE 4 [1024,1280)",
               "SEND_MIDDLE 5 [1280,1536) ?", "SEND_MIDDLE 6 [1536,1792)",
               "SEND_MIDDLE 7 [1792,2048) ?"});
  expect_progress(SendObstacle::kWindow, 2, 10);
  feed_ack(1);
  run();
  expect_sent({"SEND_MIDDLE 8 [2048,2304)", "SEND_LAST 9 [2304,2560) ?"});
  feed_ack(9);
  expect_done({"0 ok"});
}

TEST_F(RequesterTest, BudgetAndPortEndARun) {
  post(RequestKind::kSend, 1024);
  EXPECT_TRUE(run(1));
  expect_sent({"SEND_FIRST 0 [0,256)"});
  expect_progress(SendObstacle::kNone, 3, 4);
  env.port_buffers = 1;
  EXPECT_TRUE(run());
  expect_sent({"SEND_MIDDLE 1 [256,512)"});
  env.port_buffers = 100;
  EXPECT_FALSE(run());
  expect_sent({"SEND_MIDDLE 2 [512,768)", "SEND_LAST 3 [768,1024) ?"});
}

TEST_F(RequesterTest, RingIsFullAtItsCapacity) {
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(requester.full());
    post(RequestKind::kSend, 1);
  }
  EXPECT_TRUE(requester.full());
  run();
  feed_ack(0);
  EXPECT_FALSE(requester.full());
}

TEST_F(RequesterTest, FenceWaitsForReads) {
  post(RequestKind::kRead, 10);
  Request r = make(RequestKind::kSend, 10);
  r.fence = true;
  post(r);
  EXPECT_FALSE(run());
  expect_sent({"READ_REQ 0 1000+10 ?"});
  expect_progress(SendObstacle::kOrder, 1, 2);
  feed_read(Opcode::kRcReadResponseOnly, 0, 10);
  run();
  expect_sent({"SEND_ONLY 1 [0,10) ?"});
}

TEST_F(RequesterTest, FenceDoesNotWaitForWrites) {
  post(RequestKind::kWrite, 10);
  Request r = make(RequestKind::kSend, 10);
  r.fence = true;
  post(r);
  run();
  expect_sent({"WRITE_ONLY 0 1000+10 [0,10) ?", "SEND_ONLY 1 [0,10) ?"});
}

TEST_F(RequesterTest, ReadsInFlightAreBounded) {
  post(RequestKind::kRead, 1);
  post(RequestKind::kFetchAdd, 8);
  post(RequestKind::kRead, 2);
  EXPECT_FALSE(run());
  expect_sent({"READ_REQ 0 1000+1 ?", "FETCH_ADD 1 1000 0,0 ?"});
  expect_progress(SendObstacle::kOrder, 1, 3);
  feed_read(Opcode::kRcReadResponseOnly, 0, 1);
  run();
  expect_sent({"READ_REQ 2 1000+2 ?"});
  expect_progress(SendObstacle::kNone, 0, 2);
}

TEST_F(RequesterTest, ReadWithoutDepthIsAnOperationError) {
  attributes.max_rd_atomic = 0;
  requester.configure(attributes);
  post(RequestKind::kSend, 1);
  post(RequestKind::kRead, 1);
  run();
  expect_done({});  // in order: the send first
  feed_ack(0);
  run();
  expect_done({"0 ok", "1 local-qp-operation"});
  expect_events({"error"});
}

TEST_F(RequesterTest, ReadTakesAsManyPsnsAsResponses) {
  post(RequestKind::kRead, 600);
  post(RequestKind::kSend, 1);
  run();
  expect_sent({"READ_REQ 0 1000+600 ?", "SEND_ONLY 3 [0,1) ?"});
  feed_read(Opcode::kRcReadResponseFirst, 0, 256);
  feed_read(Opcode::kRcReadResponseMiddle, 1, 256);
  expect_done({});
  feed_read(Opcode::kRcReadResponseLast, 2, 88);
  feed_ack(3);
  expect_stored({"response 0 [0,256)", "response 0 [256,512)", "response 0 [512,600)"});
  expect_done({"0 ok", "1 ok"});
}

TEST_F(RequesterTest, LongestReadGoesInParts) {
  attributes.max_rd_atomic = 1;
  requester.configure(attributes);
  post_and_run(RequestKind::kRead, 1u << 31);
  expect_sent({"READ_REQ 0 1000+268435456 ?"});
}

TEST_F(RequesterTest, LongestWriteKeepsToItsWindow) {
  start_at(0xffff20);
  post_and_run(RequestKind::kWrite, 1u << 31);
  EXPECT_EQ(env.sent.size(), 32u);
  EXPECT_EQ(env.sent.front(), "WRITE_FIRST 16776992 1000+2147483648 [0,256)");
  for (const std::uint32_t acknowledged : {0xffff3fu, 0xffff7fu, 0xffffffu}) {
    env.sent.clear();
    feed_ack(acknowledged);
    run();
  }
  EXPECT_EQ(env.sent.size(), 256u);
  EXPECT_EQ(env.sent.front(), "WRITE_MIDDLE 0 [57344,57600)");
}

TEST_F(RequesterTest, InaccessiblePayloadFailsItsRequestInOrder) {
  post_and_run(RequestKind::kSend, 1);
  expect_sent({"SEND_ONLY 0 [0,1) ?"});
  env.payload_accessible = false;
  post_and_run(RequestKind::kSend, 1);
  expect_done({});
  feed_ack(0);
  run();
  expect_done({"0 ok", "1 local-protection"});
  expect_events({"error"});
}

TEST_F(RequesterTest, FlushCompletesEverything) {
  post_and_run(RequestKind::kSend, 1);
  post(RequestKind::kRead, 1);
  requester.flush(env);
  expect_done({"0 flushed", "1 flushed"});
  EXPECT_EQ(requester.deadline(), kNever);
  env.sent.clear();
  post_and_run(RequestKind::kSend, 1);
  expect_nothing_sent();
  requester.flush(env);
  expect_done({"2 flushed"});
}

// --- end-to-end credits (specification 9.7.7.2)

class CreditTest : public RequesterTest {
 protected:
  void feed_credits(std::uint32_t psn, std::uint32_t msn, std::uint8_t code) {
    feed(Opcode::kRcAck, psn, code, 0, msn);
  }
};

TEST_F(CreditTest, SendsUpToTheLimitThenProbes) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 2);
  env.sent.clear();
  for (int i = 0; i < 4; ++i) post(RequestKind::kSend, 1);
  EXPECT_FALSE(run());
  expect_sent({"SEND_ONLY 1 [0,1) ?", "SEND_ONLY 2 [0,1) ?"});
  expect_progress(SendObstacle::kReceiver, 2, 4);
  feed_credits(2, 3, 0);
  run();
  expect_sent({"SEND_ONLY 3 [0,1) ?"});  // the probe
  feed_credits(3, 4, 5);
  run();
  expect_sent({"SEND_ONLY 4 [0,1) ?"});
}

TEST_F(CreditTest, LongProbeWaitsForItsFirstPacket) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 0);
  env.sent.clear();
  post_and_run(RequestKind::kSend, 4 * 256);
  expect_sent({"SEND_FIRST 1 [0,256) ?"});
  feed_credits(1, 1, 0);
  run();
  expect_sent({"SEND_MIDDLE 2 [256,512)", "SEND_MIDDLE 3 [512,768)", "SEND_LAST 4 [768,1024) ?"});
}

TEST_F(CreditTest, WritesAndReadsNeedNone) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 0);
  env.sent.clear();
  post(RequestKind::kWrite, 1);
  post(RequestKind::kRead, 1);
  post(RequestKind::kWriteImm, 1);
  run();
  expect_sent({"WRITE_ONLY 1 1000+1 [0,1) ?", "READ_REQ 2 1000+1 ?"});
}

TEST_F(CreditTest, RepeatedAcknowledgementBringsFreshCredits) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 0);
  post_and_run(RequestKind::kSend, 1);
  post_and_run(RequestKind::kSend, 1);
  env.sent.clear();
  run();
  expect_nothing_sent();
  feed_credits(0, 1, 2);
  run();
  expect_sent({"SEND_ONLY 2 [0,1) ?"});
  expect_count(Count::kGhostAck, 0);
}

TEST_F(CreditTest, OlderAcknowledgementTakesNothingBack) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 4);
  feed_credits(0, 1, 1);
  env.sent.clear();
  post(RequestKind::kSend, 1);
  post(RequestKind::kSend, 1);
  run();
  expect_sent({"SEND_ONLY 1 [0,1) ?", "SEND_ONLY 2 [0,1) ?"});
}

TEST_F(CreditTest, LimitEndsWithNoLimit) {
  post_and_run(RequestKind::kSend, 1);
  feed_credits(0, 1, 0);
  feed_ack(0);
  env.sent.clear();
  post(RequestKind::kSend, 1);
  post(RequestKind::kSend, 1);
  run();
  expect_sent({"SEND_ONLY 1 [0,1) ?", "SEND_ONLY 2 [0,1) ?"});
}

}  // namespace
}  // namespace softhca::transport
