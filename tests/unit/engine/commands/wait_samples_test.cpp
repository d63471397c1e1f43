// SPDX-License-Identifier: Apache-2.0

// Single commands that are followed, and what their time is put down to.
#include "daemon/engine/commands/wait_samples.hpp"

#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;

class Samples : public Parts {
 protected:
  static constexpr std::uint32_t kFirst = abi::kSampledEvery, kSecond = 2 * kFirst;

  void pass(int us) { clock.now += microseconds(us); }
  /// Time of all commands put down to the cause, and how many there were.
  std::uint64_t us_of(WaitCause cause) const { return histogram(cause).sum() / 1000; }
  std::uint64_t count(WaitCause cause) const { return histogram(cause).count(); }
  const CoarseHistogram& histogram(WaitCause cause) const {
    return tenant.counters.waits.of_one[static_cast<std::size_t>(cause)];
  }

  std::uint64_t us_in(CommandStage stage) const {
    return tenant.counters.waits.in_stage[static_cast<std::size_t>(stage)].sum() / 1000;
  }
  /// What the program of the queue pair says: the command was posted so long ago.
  void tell_posted(std::uint32_t sequence, Duration ago) {
    const Time then = clock.now - ago;
    tail().posted =
        abi::post_stamp(sequence, static_cast<std::uint64_t>(then.time_since_epoch().count()));
  }
  abi::SendRingTail& tail() {
    return *reinterpret_cast<abi::SendRingTail*>(qp.send_memory.base() +
                                                 abi::send_ring_tail(kEntries, qp.stride));
  }

  WaitSamples samples{clock, kTenants};
};

TEST_F(Samples, OneIn61IsFollowedFromItsDoorbellToItsEnd) {
  samples.posted(qp.qp, 50, kFirst);  // up to the one before
  pass(5);
  samples.posted(qp.qp, kFirst, kFirst + 10);
  samples.seen(tenant.qos_class, WaitSamples::Stage::kSendQueue, WaitCause::kNoPcb);
  pass(10);
  samples.kicked(qp.qp, kFirst);
  pass(20);
  samples.seen(qp.qp, kFirst - 3, 4, WaitCause::kExecutionCredit);
  samples.seen(qp.qp, kFirst + 1, 4, WaitCause::kOrder);
  pass(30);
  samples.started(qp.qp, kFirst);
  pass(40);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_of(WaitCause::kNoPcb), 10u);
  EXPECT_EQ(us_of(WaitCause::kExecutionCredit), 50u) << "what it was seen to wait for lasts";
  EXPECT_EQ(us_of(WaitCause::kAcknowledgement), 40u);
  EXPECT_EQ(count(WaitCause::kAcknowledgement), 1u);
  EXPECT_EQ(count(WaitCause::kOrder), 0u);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(count(WaitCause::kAcknowledgement), 1u) << "once";
}

TEST_F(Samples, OneThatCameByVcbIsFollowedFromItsKick) {
  samples.kicked(qp.qp, kFirst);
  pass(7);
  samples.started(qp.qp, kFirst);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_of(WaitCause::kEngine), 7u);
}

TEST_F(Samples, WhatNoCensusHasSeenIsAsThoseOfItsClassWere) {
  samples.seen(tenant.qos_class, WaitSamples::Stage::kSendQueue, WaitCause::kNoVcb);
  samples.seen(tenant.qos_class, WaitSamples::Stage::kKickList, WaitCause::kExecutionCredit);
  samples.posted(qp.qp, 60, 62);
  pass(9);
  samples.kicked(qp.qp, kFirst);
  pass(4);
  samples.started(qp.qp, kFirst);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_of(WaitCause::kNoVcb), 9u);
  EXPECT_EQ(us_of(WaitCause::kExecutionCredit), 4u);
}

TEST_F(Samples, WhatStartedWaitsToBeSentAsLongAsThoseOfItsClassDo) {
  const auto start_and_end = [&](std::uint32_t sequence) {
    samples.kicked(qp.qp, sequence);
    samples.started(qp.qp, sequence);
    pass(8);
    samples.completed(qp.qp, sequence);
  };
  samples.seen_started(tenant.qos_class, 1, 3, WaitCause::kOrder);
  start_and_end(kFirst);
  EXPECT_EQ(us_of(WaitCause::kOrder), 6u);
  EXPECT_EQ(us_of(WaitCause::kAcknowledgement), 2u);
  samples.seen_started(tenant.qos_class, 4, 0, WaitCause::kEngine);
  start_and_end(kSecond);
  EXPECT_EQ(us_of(WaitCause::kOrder), 6u);
  EXPECT_EQ(us_of(WaitCause::kAcknowledgement), 10u);
}

TEST_F(Samples, OneThatComesAgainIsFollowedOnce) {
  samples.posted(qp.qp, 60, 70);
  pass(5);
  samples.posted(qp.qp, 60, 80);  // its doorbell had left the daemon
  samples.kicked(qp.qp, kFirst);
  samples.kicked(qp.qp, kFirst);  // given back, and fetched again
  pass(5);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_of(WaitCause::kEngine) + us_of(WaitCause::kAcknowledgement), 10u);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(count(WaitCause::kAcknowledgement), 1u);
}

TEST_F(Samples, ThoseOfAQueuePairThatIsResetAreForgotten) {
  samples.kicked(qp.qp, kFirst);
  samples.forget(qp.qp);
  pass(5);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(count(WaitCause::kEngine) + count(WaitCause::kAcknowledgement), 0u);
}

TEST_F(Samples, TimeIsToldByStage) {
  tell_posted(kFirst, microseconds(3));
  samples.posted(qp.qp, 60, 70);
  pass(5);
  samples.kicked(qp.qp, kFirst);
  pass(7);
  samples.started(qp.qp, kFirst);
  pass(11);
  samples.transmitted(qp.qp, kFirst);
  pass(13);
  samples.transmitted(qp.qp, kFirst);  // again, after a loss
  pass(4);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_in(CommandStage::kPost), 3u);
  EXPECT_EQ(us_in(CommandStage::kCollect), 5u);
  EXPECT_EQ(us_in(CommandStage::kKick), 7u);
  EXPECT_EQ(us_in(CommandStage::kTransmit), 11u);
  EXPECT_EQ(us_in(CommandStage::kAcknowledge), 17u);
}

/// Given back before its first packet went: the same stages again, as one time in each.
TEST_F(Samples, StagesThatComeAgainAddUp) {
  for (int i = 0; i < 2; ++i) {
    samples.kicked(qp.qp, kFirst);
    pass(2);
    samples.started(qp.qp, kFirst);
    pass(3);
  }
  samples.transmitted(qp.qp, kFirst);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_in(CommandStage::kKick), 4u);
  EXPECT_EQ(us_in(CommandStage::kTransmit), 6u);
  EXPECT_EQ(tenant.counters.waits.in_stage[static_cast<std::size_t>(CommandStage::kKick)].count(),
            1u);
}

TEST_F(Samples, TimeGoesOnWithinAStep) {
  static Time exact;
  exact = clock.now + microseconds(1);
  clock.read = [] { return exact; };
  samples.kicked(qp.qp, kFirst);
  exact += microseconds(6);
  samples.started(qp.qp, kFirst);
  samples.transmitted(qp.qp, kFirst);
  samples.completed(qp.qp, kFirst);
  EXPECT_EQ(us_in(CommandStage::kKick), 6u);
}

/// The word is in memory of the program.
TEST_F(Samples, WhenItWasPostedIsBelievedWithinReason) {
  const auto run = [&] {
    samples.kicked(qp.qp, kFirst);
    samples.completed(qp.qp, kFirst);
    return tenant.counters.waits.in_stage[static_cast<std::size_t>(CommandStage::kPost)].count();
  };
  EXPECT_EQ(run(), 0u) << "it says nothing";
  tell_posted(kSecond, microseconds(1));
  EXPECT_EQ(run(), 0u) << "of another command";
  tell_posted(kFirst, -microseconds(1));
  EXPECT_EQ(run(), 0u) << "in the future";
  tell_posted(kFirst, std::chrono::seconds(11));
  EXPECT_EQ(run(), 0u) << "long ago";
  tell_posted(kFirst, std::chrono::seconds(9));
  EXPECT_EQ(run(), 1u);
}

/// Commands that never end keep the others of their class from being followed for a while only.
TEST_F(Samples, OnesThatLastMakeRoom) {
  for (std::uint32_t i = 1; i <= WaitSamples::kMost; ++i) samples.kicked(qp.qp, i * kFirst);
  const std::uint32_t later = 10 * kFirst;
  samples.kicked(qp.qp, later);
  pass(1);
  samples.completed(qp.qp, later);
  EXPECT_EQ(count(WaitCause::kAcknowledgement), 0u) << "the table was full";
  clock.now += std::chrono::seconds(11);
  samples.seen(qp.qp, kFirst, 1, WaitCause::kReceiver);
  samples.kicked(qp.qp, later);
  EXPECT_EQ(count(WaitCause::kReceiver), 1u) << "what it has waited is not lost";
  pass(1);
  samples.completed(qp.qp, later);
  EXPECT_EQ(us_of(WaitCause::kAcknowledgement), 1u);
}

}  // namespace
}  // namespace softhca::engine
