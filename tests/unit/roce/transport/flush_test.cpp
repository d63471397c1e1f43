// SPDX-License-Identifier: Apache-2.0

// Flush, at both ends and between queue pairs of one daemon.
#include "daemon/roce/transport/flush.hpp"

#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint32_t kRegion = kFlushWholeRegion << kFlushSelectivityShift;

class FlushAtResponder : public ResponderTest {
 protected:
  void feed_flush(std::uint32_t psn, std::uint32_t flush, std::uint32_t length = 300) {
    wire::Headers h = make(Opcode::kRcFlush, psn);
    h.flush = flush;
    h.dma_length = length;
    feed(h);
  }
  void expect_refused(std::uint32_t flush, const char* answer, const char* event) {
    start_at(0);
    feed_flush(0, flush);
    run();
    EXPECT_EQ(std::exchange(env.sent, {}), Lines{answer}) << flush;
    EXPECT_EQ(std::exchange(env.events, {}).back(), event) << flush;
  }
};

TEST_F(FlushAtResponder, IsAnsweredAsAReadOfNothing) {
  feed(Opcode::kRcWriteOnly, 0, 100, 100);
  feed_flush(1, kFlushGlobal);
  expect_answer({"READ_RESP_ONLY 1 msn 2"});
  EXPECT_EQ(env.asked, Lines{"flush 1000+300"});
  feed_flush(2, kFlushGlobal | kRegion, ~0u);
  expect_answer({"READ_RESP_ONLY 2 msn 3"});
  EXPECT_EQ(env.asked.back(), "flush region 1000+4294967295");
}

TEST_F(FlushAtResponder, IsAnsweredAgainWhenTheAnswerWasLost) {
  feed_flush(0, kFlushGlobal);
  expect_answer({"READ_RESP_ONLY 0 msn 1"});
  feed_flush(0, kFlushGlobal);
  expect_answer({"READ_RESP_ONLY 0 msn 1"});
  expect_count(Count::kDuplicateRequests, 1);
}

TEST_F(FlushAtResponder, CountsAsARead) {
  for (std::uint32_t psn = 0; psn < 3; ++psn) feed_flush(psn, kFlushGlobal);
  run();
  EXPECT_EQ(env.sent.back(), "NAK 61 2 msn 2") << "two were agreed";
}

TEST_F(FlushAtResponder, NothingOutlastsThePower) {
  expect_refused(kFlushPersistent, "NAK 62 0 msn 0", "error access-error");
  expect_refused(kFlushGlobal | kFlushPersistent, "NAK 62 0 msn 0", "error access-error");
  expect_refused(kFlushPersistent | kRegion, "NAK 62 0 msn 0", "error access-error");
}

TEST_F(FlushAtResponder, WhatIsNoFlushIsRefused) {
  for (const std::uint32_t flush : {0u, 4u, 9u, 2u << kFlushSelectivityShift | kFlushGlobal,
                                    3u << kFlushSelectivityShift | kFlushGlobal})
    expect_refused(flush, "NAK 61 0 msn 0", "error invalid-request");
  start_at(0);
  feed_flush(0, kFlushGlobal | 0xffffffc0);
  expect_answer({"READ_RESP_ONLY 0 msn 1"});
}

TEST_F(FlushAtResponder, MemoryThatMayNotBeFlushed) {
  env.remote_access = Verdict::kRemoteAccess;
  expect_refused(kFlushGlobal, "NAK 62 0 msn 0", "error access-error");
  expect_refused(kFlushGlobal | kRegion, "NAK 62 0 msn 0", "error access-error");
}

TEST_F(FlushAtResponder, LongerThanAMessageUnlessItIsARegion) {
  feed_flush(0, kFlushGlobal, kMaxMessageBytes);
  expect_answer({"READ_RESP_ONLY 0 msn 1"});
  feed_flush(1, kFlushGlobal, kMaxMessageBytes + 1);
  expect_answer({"NAK 61 1 msn 1"});
}

class FlushAtRequester : public RequesterTest {
 protected:
  void post_flush() {
    Request r = make(RequestKind::kFlush, 0);
    r.compare_add = 300;
    r.swap = kFlushGlobal;
    post(r);
    run();
  }
};

TEST_F(FlushAtRequester, WaitsForItsResponse) {
  post_and_run(RequestKind::kWrite, 8);
  post_flush();
  expect_sent({"WRITE_ONLY 0 1000+8 [0,8) ?", "FLUSH 1 1000+300 flush 1 ?"});
  feed_ack(1);
  expect_done({"0 ok"});
  feed_read(Opcode::kRcReadResponseOnly, 1, 0);
  expect_done({"1 ok"});
  expect_stored({});
}

TEST_F(FlushAtRequester, IsSentAgain) {
  post_flush();
  expect_sent({"FLUSH 0 1000+300 flush 1 ?"});
  pass_deadline();
  run();
  expect_sent({"FLUSH 0 1000+300 flush 1 ?"});
}

TEST_F(FlushAtRequester, CountsAsARead) {
  for (int i = 0; i < 3; ++i) post_flush();
  expect_sent({"FLUSH 0 1000+300 flush 1 ?", "FLUSH 1 1000+300 flush 1 ?"});
  feed_read(Opcode::kRcReadResponseOnly, 0, 0);
  run();
  expect_sent({"FLUSH 2 1000+300 flush 1 ?"});
}

}  // namespace
}  // namespace softhca::transport
