// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/completion_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

constexpr std::uint32_t kCompletions = 4;

/// A completion queue and, of the tenant's side, what a test needs.
struct Queue {
  explicit Queue(std::uint32_t entries = kCompletions)
      : area(CompletionRing::bytes_for(entries)), count(entries) {}
  abi::CompletionRingHeader& header() { return area.at<abi::CompletionRingHeader>(0); }
  abi::CompletionElement& element(std::uint32_t i) {
    return area.at<abi::CompletionElement>(64 + std::size_t{i % count} * 32);
  }
  /// Polls as the provider does: the element at the consumer counter, if its phase is right.
  bool poll(std::uint32_t& index) {
    const std::uint32_t at = header().consumer;
    abi::CompletionElement& e = element(at);
    if ((e.owner & abi::kPhaseBit) != abi::phase_of(at, count)) return false;
    index = e.index;
    header().consumer = at + 1;
    return true;
  }
  void arm(std::uint32_t kind) { header().arm |= kind; }

  SharedArea area;
  std::uint32_t count;
};

Completion numbered(std::uint32_t index) {
  Completion c;
  c.index = index;
  return c;
}

TEST(CompletionRing, WritesEveryField) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  Completion c;
  c.qpn = 1;
  c.index = 2;
  c.byte_len = 3;
  c.imm = 4;
  c.timestamp = 0x1234567890;
  c.status = abi::CompletionStatus::kRemoteAccessError;
  c.opcode = abi::CompletionOpcode::kReceive;
  c.flags = abi::kCompletionGrh;
  c.is_receive = true;
  c.source_qpn = 0xff654321;
  ASSERT_TRUE(ring.push(c));
  abi::CompletionElement& e = queue.element(0);
  EXPECT_EQ(e.qpn, 1u);
  EXPECT_EQ(e.index, 2u);
  EXPECT_EQ(e.byte_len, 3u);
  EXPECT_EQ(e.imm, 4u);
  EXPECT_EQ(e.timestamp, 0x1234567890u);
  EXPECT_EQ(e.status, 10);
  EXPECT_EQ(e.opcode, 128);
  EXPECT_EQ(e.flags, abi::kCompletionGrh);
  EXPECT_EQ(e.is_receive, 1);
  EXPECT_EQ(e.owner.load(), abi::kPhaseBit | 0x654321u);
}

TEST(CompletionRing, APollingTenantSeesEachCompletionOnceLapAfterLap) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  std::uint32_t index = 0;
  EXPECT_FALSE(queue.poll(index));
  for (std::uint32_t i = 0; i < 10 * kCompletions; ++i) {
    ASSERT_TRUE(ring.push(numbered(i)));
    ASSERT_TRUE(queue.poll(index));
    EXPECT_EQ(index, i);
    EXPECT_FALSE(queue.poll(index));
  }
}

TEST(CompletionRing, AFullRingRefusesUntilTheTenantPolls) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  for (std::uint32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(ring.push(numbered(i)));
  EXPECT_EQ(ring.backlog(), kCompletions);
  EXPECT_FALSE(ring.push(numbered(99)));
  std::uint32_t index = 0;
  ASSERT_TRUE(queue.poll(index));
  EXPECT_EQ(index, 0u) << "the refused one overwrote nothing";
  EXPECT_EQ(ring.backlog(), kCompletions - 1);
  EXPECT_TRUE(ring.push(numbered(4)));
  EXPECT_FALSE(ring.push(numbered(5)));
}

TEST(CompletionRing, AConsumerIndexOutOfRangeIsAFullRing) {
  for (const std::uint32_t wild : {kCompletions + 1, 0x80000000u, 0xffffffffu}) {
    Queue queue;
    CompletionRing ring(queue.area.base(), kCompletions);
    for (std::uint32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(ring.push(numbered(i)));
    queue.header().consumer = wild;
    EXPECT_FALSE(ring.push(numbered(99))) << wild;
    EXPECT_LE(ring.backlog(), kCompletions);
    queue.header().consumer = kCompletions;
    EXPECT_TRUE(ring.push(numbered(4))) << "an honest index helps again";
  }
}

TEST(CompletionRing, CountersWrapAt32Bits) {
  constexpr std::uint32_t kNearTheEnd =
      0xfffffff8;  // a multiple of 2 * kCompletions: as in a new ring
  Queue queue;
  queue.header().consumer = kNearTheEnd;
  CompletionRing ring(queue.area.base(), kCompletions, kNearTheEnd);
  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i < 4 * kCompletions; ++i) {
    ASSERT_TRUE(ring.push(numbered(i)));
    ASSERT_TRUE(queue.poll(index));
    EXPECT_EQ(index, i);
    EXPECT_FALSE(queue.poll(index));
  }
  EXPECT_EQ(queue.header().consumer.load(), 8u);
  for (std::uint32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(ring.push(numbered(i)));
  EXPECT_FALSE(ring.push(numbered(9)));
}

TEST(CompletionRing, FiresOnlyWhenArmedAndSomethingCame) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  ring.push(numbered(0));
  EXPECT_FALSE(ring.check_arm()) << "not armed";
  queue.arm(abi::kArmAny);
  EXPECT_FALSE(ring.check_arm()) << "nothing new since it was armed";
  ring.push(numbered(1));
  EXPECT_TRUE(ring.check_arm());
}

TEST(CompletionRing, FiresOnceForEachArming) {
  Queue queue(64);
  CompletionRing ring(queue.area.base(), 64);
  const auto fires = [&](bool solicited) {
    ring.push(numbered(0), solicited);
    return ring.check_arm();
  };
  for (const std::uint32_t kind : {abi::kArmSolicited, abi::kArmAny, abi::kArmSolicited}) {
    queue.arm(kind);
    queue.arm(kind);
    EXPECT_TRUE(fires(true));
    EXPECT_FALSE(fires(true)) << "it had its event";
  }
  queue.arm(abi::kArmAny);
  queue.arm(abi::kArmSolicited);
  EXPECT_TRUE(fires(false)) << "the weaker arming does not take the other's place";
  EXPECT_FALSE(fires(true)) << "the event was for both";
  queue.arm(abi::kArmSolicited);
  EXPECT_FALSE(fires(false)) << "what was asked for before is over";
  EXPECT_TRUE(fires(true));
}

TEST(CompletionRing, SolicitedArmWaitsForSolicitedOrFailed) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  queue.arm(abi::kArmSolicited);
  ring.push(numbered(0));
  EXPECT_FALSE(ring.check_arm());
  ring.push(numbered(1), true);
  EXPECT_TRUE(ring.check_arm());
  queue.arm(abi::kArmSolicited);
  EXPECT_FALSE(ring.check_arm()) << "news are used up";
  Completion failed = numbered(2);
  failed.status = abi::CompletionStatus::kFlushError;
  ring.push(failed);
  EXPECT_TRUE(ring.check_arm());
}

TEST(CompletionRing, AnUnknownArmingIsNone) {
  Queue queue;
  CompletionRing ring(queue.area.base(), kCompletions);
  queue.arm(4);
  ring.push(numbered(0), true);
  EXPECT_FALSE(ring.check_arm());
}

TEST(CompletionRing, AResizeGoesOnInTheNewRingWithTheArmWord) {
  Queue old;
  Queue larger(8);
  CompletionRing ring(old.area.base(), kCompletions);
  for (std::uint32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(ring.push(numbered(i)));
  EXPECT_FALSE(ring.check_arm());
  old.arm(abi::kArmAny);
  ring.replace(larger.area.base(), 8, 1);
  EXPECT_EQ(ring.entries(), 8u);
  EXPECT_EQ(ring.backlog(), 0u);
  for (std::uint32_t i = 10; i < 18; ++i) ASSERT_TRUE(ring.push(numbered(i)));
  EXPECT_FALSE(ring.push(numbered(18)));
  EXPECT_TRUE(ring.check_arm());

  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i < kCompletions; ++i) {
    ASSERT_TRUE(old.poll(index));
    EXPECT_EQ(index, i);
  }
  EXPECT_FALSE(old.poll(index));
  ASSERT_TRUE(larger.poll(index));
  EXPECT_EQ(index, 10u);
}

/// The next engine finds the place of the next completion, wherever the earlier one has stopped.
TEST(CompletionRingResume, AtEveryCounter_TheNextCompletionFollows) {
  for (const std::uint32_t entries : {1u, 2u, 4u, 8u}) {
    for (std::uint32_t pushed = 0; pushed < 4 * entries + 3; ++pushed) {
      for (std::uint32_t unpolled = 0; unpolled <= std::min(pushed, entries); ++unpolled) {
        Queue queue(entries);
        CompletionRing before(queue.area.base(), entries);
        std::uint32_t index = 0;
        for (std::uint32_t i = 0; i < pushed; ++i) {
          ASSERT_TRUE(before.push(numbered(i)));
          const bool polled = i + unpolled >= pushed || queue.poll(index);
          ASSERT_TRUE(polled);
        }
        CompletionRing after(queue.area.base(), entries);
        ASSERT_TRUE(after.resume());
        EXPECT_EQ(after.backlog(), unpolled);
        EXPECT_EQ(after.has_news(), unpolled != 0);
        EXPECT_EQ(after.push(numbered(pushed)), unpolled < entries);
        std::uint32_t next = pushed - unpolled;
        while (queue.poll(index)) ASSERT_EQ(index, next++);
        EXPECT_EQ(next, pushed + (unpolled < entries ? 1 : 0));
      }
    }
  }
}

TEST(CompletionRingResume, ConsumerThatNoHonestTenantWrites_Refused) {
  Queue queue;
  CompletionRing before(queue.area.base(), kCompletions);
  before.push(numbered(0));
  queue.header().consumer = 3;
  CompletionRing after(queue.area.base(), kCompletions);
  EXPECT_FALSE(after.resume());
}

TEST(CompletionRingResume, ArmedWithCompletions_OneEventIsDue) {
  Queue queue;
  CompletionRing before(queue.area.base(), kCompletions);
  before.push(numbered(0));
  queue.arm(abi::kArmSolicited);
  CompletionRing after(queue.area.base(), kCompletions);
  ASSERT_TRUE(after.resume());
  EXPECT_TRUE(after.check_arm());
  after.event_sent();
  EXPECT_FALSE(after.check_arm());
  CompletionRing last(queue.area.base(), kCompletions);
  ASSERT_TRUE(last.resume());
  EXPECT_FALSE(last.check_arm()) << "it was sent";
}

/// The engine has decided on an event and not sent it: its process has polled, and waits for it.
TEST(CompletionRingResume, OwedEvent_IsDueThoughNothingIsThere) {
  Queue queue;
  CompletionRing before(queue.area.base(), kCompletions);
  queue.arm(abi::kArmAny);
  before.push(numbered(0));
  ASSERT_TRUE(before.check_arm());
  std::uint32_t index = 0;
  ASSERT_TRUE(queue.poll(index));
  CompletionRing after(queue.area.base(), kCompletions);
  ASSERT_TRUE(after.resume());
  EXPECT_TRUE(after.has_news());
  EXPECT_TRUE(after.check_arm());
}

}  // namespace
}  // namespace softhca::shm
