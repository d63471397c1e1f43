// SPDX-License-Identifier: Apache-2.0

// What a requester consists of: credits of its peer, its timer, the parts of a long read.
#include <gtest/gtest.h>

#include "daemon/roce/transport/reliable/end_to_end_credits.hpp"
#include "daemon/roce/transport/reliable/read_or_atomic.hpp"
#include "daemon/roce/transport/reliable/retry_timer.hpp"

namespace softhca::transport {
namespace {

using std::chrono::milliseconds;

RequestSlot message(std::uint32_t sequence, RequestKind kind = RequestKind::kSend) {
  RequestSlot slot;
  slot.request.kind = kind;
  slot.sequence = Psn(sequence);
  return slot;
}

/// An acknowledgement after `sequence` messages, with credits for `messages` more.
wire::Headers acknowledgement(std::uint32_t sequence, std::uint32_t messages) {
  wire::Headers h;
  h.msn = sequence;
  h.syndrome = encode_credits(messages);
  return h;
}

TEST(EndToEndCreditsTest, PermitEverythingUntilThePeerCounts) {
  EndToEndCredits credits;
  EXPECT_TRUE(credits.permit(message(0x700000)));
  credits.update(acknowledgement(3, 2));
  EXPECT_TRUE(credits.permit(message(5)));
  EXPECT_FALSE(credits.permit(message(6)));
  wire::Headers unlimited;
  unlimited.syndrome = wire::kSyndromeNoCreditLimit;
  credits.update(unlimited);
  EXPECT_TRUE(credits.permit(message(6)));
}

TEST(EndToEndCreditsTest, AreOfNoConcernToWhatDrawsNoReceive) {
  EndToEndCredits credits;
  credits.update(acknowledgement(0, 0));
  EXPECT_FALSE(credits.permit(message(1, RequestKind::kSendImm)));
  EXPECT_FALSE(credits.permit(message(1, RequestKind::kWriteImm)));
  EXPECT_TRUE(credits.permit(message(1, RequestKind::kWrite)));
  EXPECT_TRUE(credits.permit(message(1, RequestKind::kRead)));
  EXPECT_TRUE(credits.permit(message(1, RequestKind::kFetchAdd)));
}

TEST(EndToEndCreditsTest, AnOlderAcknowledgementTakesNothingBack) {
  EndToEndCredits credits;
  credits.update(acknowledgement(10, 4));
  credits.update(acknowledgement(9, 1));
  EXPECT_TRUE(credits.permit(message(14)));
  EXPECT_FALSE(credits.permit(message(15)));
}

TEST(EndToEndCreditsTest, GoOnOverTheEndOfTheNumbers) {
  EndToEndCredits credits;
  credits.update(acknowledgement(0xffffff, 2));
  EXPECT_TRUE(credits.permit(message(1)));
  EXPECT_FALSE(credits.permit(message(2)));
}

TEST(RetryTimerTest, TheEarlierOfBothWaitsCountsAndTheTimeoutIsNotPutOff) {
  RetryTimer timer;
  EXPECT_EQ(timer.deadline(), kNever);
  timer.configure(milliseconds(100));
  const Time start{};
  timer.start(start, milliseconds(10));
  EXPECT_TRUE(timer.runs());
  EXPECT_EQ(timer.deadline(), start + milliseconds(10));
  EXPECT_TRUE(timer.is_early(start + milliseconds(10)));
  timer.await_again(start + milliseconds(10), milliseconds(500));
  EXPECT_EQ(timer.deadline(), start + milliseconds(100));
  EXPECT_FALSE(timer.is_early(start + milliseconds(100)));
}

TEST(RetryTimerTest, WhereTheTimeoutIsShorterThereIsNoEarlyRetry) {
  RetryTimer timer;
  timer.configure(milliseconds(5));
  timer.start(Time{}, Duration::max());
  EXPECT_EQ(timer.deadline(), Time{} + milliseconds(5));
}

TEST(RetryTimerTest, WithoutATimeoutSilenceEndsNoWait) {
  RetryTimer timer;
  timer.configure(Duration(0));
  timer.start(Time{}, milliseconds(1));
  EXPECT_FALSE(timer.runs());
  EXPECT_EQ(timer.deadline(), kNever);
}

TEST(RetryTimerTest, AReceiverThatIsNotReadyIsWaitedForAlone) {
  RetryTimer timer;
  timer.configure(milliseconds(5));
  timer.start(Time{}, milliseconds(1));
  const Time until = Time{} + milliseconds(50);
  timer.hold_until(until);
  EXPECT_FALSE(timer.runs());
  EXPECT_EQ(timer.deadline(), until);
  EXPECT_TRUE(timer.must_hold(until - Duration(1)));
  EXPECT_FALSE(timer.must_hold(until));
  EXPECT_TRUE(timer.is_held());
  timer.release();
  EXPECT_FALSE(timer.is_held());
  EXPECT_EQ(timer.deadline(), kNever);
}

TEST(RetryTimerTest, WhoRestsForASilentPeerTriesAgainWhenARetryIsDue) {
  RetryTimer timer;
  timer.configure(milliseconds(100));
  const Time start{};
  timer.start(start, milliseconds(10));
  timer.rest();
  EXPECT_TRUE(timer.is_held());
  EXPECT_TRUE(timer.must_hold(start + milliseconds(9)));
  EXPECT_FALSE(timer.must_hold(start + milliseconds(10)));
  timer.release();
  EXPECT_FALSE(timer.rests());
  timer.await_again(start + milliseconds(10), milliseconds(20));
  timer.sent(start + milliseconds(15), milliseconds(20));
  EXPECT_EQ(timer.deadline(), start + milliseconds(35)) << "from when it went";
  timer.sent(start + milliseconds(16), milliseconds(20));
  EXPECT_EQ(timer.deadline(), start + milliseconds(35)) << "only the first";
  timer.rest();
  timer.release();
  timer.sent(start + milliseconds(300), milliseconds(20));
  EXPECT_EQ(timer.deadline(), start + milliseconds(320));
  EXPECT_FALSE(timer.is_early(start + milliseconds(320))) << "the timeout has come before";
  timer.wait_for_next();
  timer.sent(start + milliseconds(400), Duration::max());
  EXPECT_EQ(timer.deadline(), start + milliseconds(500));
  timer.hold_until(start + milliseconds(600));
  EXPECT_FALSE(timer.rests());
}

TEST(ReadOrAtomicTest, ALongReadIsAskedForInParts) {
  constexpr std::uint32_t kAll = 2 * kReadPartPackets + 5;
  EXPECT_EQ(read_parts(1), 1u);
  EXPECT_EQ(read_parts(kReadPartPackets), 1u);
  EXPECT_EQ(read_parts(kAll), 3u);
  EXPECT_EQ(read_part_end(kAll, 0), kReadPartPackets);
  EXPECT_EQ(read_part_end(kAll, kReadPartPackets - 1), kReadPartPackets);
  EXPECT_EQ(read_part_end(kAll, kReadPartPackets), 2 * kReadPartPackets);
  EXPECT_EQ(read_part_end(kAll, kAll - 1), kAll);

  Request read;
  read.kind = RequestKind::kRead;
  read.remote_addr = 0x1000;
  read.length = (kAll - 1) * 256 + 7;
  wire::Headers h;
  fill_read_or_atomic(h, read, kAll, kReadPartPackets, read_part_end(kAll, kReadPartPackets), 8);
  EXPECT_EQ(h.remote_addr, 0x1000 + std::uint64_t{kReadPartPackets} * 256);
  EXPECT_EQ(h.dma_length, kReadPartPackets * 256);
  fill_read_or_atomic(h, read, kAll, kAll - 2, kAll, 8);
  EXPECT_EQ(h.dma_length, 256u + 7);
}

TEST(ReadOrAtomicTest, TheAddendTravelsInTheSwapField) {
  Request atomic;
  atomic.kind = RequestKind::kFetchAdd;
  atomic.compare_add = 5;
  atomic.swap = 9;
  wire::Headers h;
  fill_read_or_atomic(h, atomic, 1, 0, 1, 10);
  EXPECT_EQ(h.swap_add, 5u);
  EXPECT_EQ(h.compare, 0u);
  atomic.kind = RequestKind::kCompareSwap;
  fill_read_or_atomic(h, atomic, 1, 0, 1, 10);
  EXPECT_EQ(h.swap_add, 9u);
  EXPECT_EQ(h.compare, 5u);
}

}  // namespace
}  // namespace softhca::transport
