// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/session_view.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

using abi::Doorbell;
using abi::kDoorbellEntries;

class SessionViewTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kVcbs = 5;

  SessionViewTest() : area_(abi::session_bytes(kVcbs)), view_(area_.base(), kVcbs) {
    SessionView::format(area_.base(), kVcbs);
  }
  abi::SessionHeader& header() { return area_.at<abi::SessionHeader>(0); }
  abi::VcbPage& page(std::uint32_t vcb) {
    return area_.at<abi::VcbPage>(abi::kVcbOffset + vcb * abi::kPageBytes);
  }
  /// Writes a command to VCB `vcb`, with payload bytes that count up.
  void write_command(std::uint32_t vcb, std::uint16_t payload_bytes, std::uint8_t flags) {
    abi::CommandHeader command{};
    command.flags = flags;
    command.payload_bytes = payload_bytes;
    command.qpn = 17;
    std::memcpy(page(vcb).command, &command, sizeof command);
    std::iota(page(vcb).command + 64, page(vcb).command + 320, std::uint8_t{1});
  }
  static Take take(SessionView& view, Doorbell& doorbell) {
    const Take taken = view.next_doorbell(doorbell);
    if (taken == Take::kTaken) view.take_doorbell();
    return taken;
  }
  void ring_doorbell(Doorbell doorbell) {
    const std::uint32_t n = header().doorbell_producer.load();
    area_.at<Doorbell>(abi::kDoorbellOffset + n % kDoorbellEntries * sizeof(Doorbell)) = doorbell;
    header().doorbell_producer.store(n + 1);
  }

  SharedArea area_;
  SessionView view_;
};

TEST_F(SessionViewTest, FormatWritesTheConstantLine) {
  EXPECT_EQ(header().magic, abi::kSessionMagic);
  EXPECT_EQ(header().version, abi::kAbiVersion);
  EXPECT_EQ(header().vcbs, kVcbs);
}

TEST_F(SessionViewTest, PendingAreTheVcbsHandedOver) {
  EXPECT_EQ(view_.pending(), 0u);
  header().active ^= 0b10010;
  EXPECT_EQ(view_.pending(), 0b10010u);
  view_.release(0b00010);
  EXPECT_EQ(view_.pending(), 0b10000u);
  EXPECT_EQ(header().released.load(), 0b00010u);
  header().active ^= 0b00010;
  EXPECT_EQ(view_.pending(), 0b10010u) << "a bit turned over the second time";
}

TEST_F(SessionViewTest, BitsBeyondTheSessionsVcbsAreNobodys) {
  header().active = ~std::uint64_t{0};
  EXPECT_EQ(view_.pending(), 0b11111u);
  view_.release(~std::uint64_t{0});
  EXPECT_EQ(header().released.load(), 0b11111u);
  EXPECT_EQ(view_.pending(), 0u);
}

TEST_F(SessionViewTest, VcbsAreGrantedAndRevokedFromTheEnd) {
  EXPECT_EQ(header().granted.load(), 0b11111u);
  EXPECT_EQ(view_.revoke(2), 2u);
  EXPECT_EQ(header().granted.load(), 0b11u);
  header().active ^= 0b1000;
  EXPECT_EQ(view_.pending(), 0u) << "it is not the process's";
  view_.grant(4);
  EXPECT_EQ(header().granted.load(), 0b1111u);
  EXPECT_EQ(view_.pending(), 0b1000u);
  EXPECT_EQ(view_.revoke(1), 4u) << "one that is handed over, and those before it, stay";
  EXPECT_EQ(header().granted.load(), 0b1111u);
  view_.release(0b1000);
  EXPECT_EQ(view_.revoke(0), 0u);
  EXPECT_EQ(header().granted.load(), 0u);
  EXPECT_EQ(view_.revoke(3), 0u) << "grants nothing";
}

TEST_F(SessionViewTest, WhatTheTenantWritesIntoGrantedCountsForNothing) {
  view_.revoke(1);
  header().granted = ~std::uint64_t{0};
  header().active = ~std::uint64_t{0};
  EXPECT_EQ(view_.pending(), 1u);
  EXPECT_EQ(view_.granted(), 1u);
}

TEST(SessionView, UsesAll64Bits) {
  const SharedArea area(abi::session_bytes(64));
  SessionView view(area.base(), 64);
  area.at<abi::SessionHeader>(0).active = ~std::uint64_t{0};
  EXPECT_EQ(view.pending(), ~std::uint64_t{0});
}

TEST_F(SessionViewTest, AReleasedWordOverwrittenByTheTenantChangesNothing) {
  header().active ^= 1;
  view_.release(1);
  header().released = 0xdead;
  EXPECT_EQ(view_.pending(), 0u);
  header().active ^= 1;
  view_.release(1);
  EXPECT_EQ(header().released.load(), 0u);
}

TEST_F(SessionViewTest, CopiesACommandAndNoMoreThanItsPayload) {
  write_command(3, 32, 0);
  abi::CommandHeader command;
  std::byte payload[256] = {};
  ASSERT_EQ(view_.copy_command(3, command, payload), Verdict::kOk);
  EXPECT_EQ(command.qpn, 17u);
  EXPECT_EQ(payload[0], std::byte{1});
  EXPECT_EQ(payload[31], std::byte{32});
  EXPECT_EQ(payload[32], std::byte{0});
}

TEST_F(SessionViewTest, TakesInlineDataOfAnyLengthUpTo256) {
  abi::CommandHeader command;
  for (const std::uint16_t length : {0, 1, 255, 256}) {
    std::byte payload[257] = {};
    write_command(0, length, abi::kCommandInline);
    ASSERT_EQ(view_.copy_command(0, command, payload), Verdict::kOk) << length;
    EXPECT_EQ(payload[length], std::byte{0});
    if (length > 0) {
      EXPECT_EQ(payload[length - 1], std::byte(length));
    }
  }
}

TEST_F(SessionViewTest, RefusesImpossiblePayloads) {
  abi::CommandHeader command;
  std::byte payload[256] = {};
  for (const std::uint16_t length : {257, 272, 0xffff}) {
    write_command(0, length, abi::kCommandInline);
    EXPECT_EQ(view_.copy_command(0, command, payload), Verdict::kLocalQpOperation) << length;
  }
  write_command(0, 24, 0);
  EXPECT_EQ(view_.copy_command(0, command, payload), Verdict::kLocalQpOperation)
      << "one and a half entries";
  EXPECT_EQ(payload[0], std::byte{0});
}

TEST_F(SessionViewTest, CopiesChosenSegmentsOnly) {
  std::iota(page(1).command, page(1).command + 255, std::uint8_t{1});
  abi::CommandHeader command{};
  std::byte payload[256] = {};
  view_.copy_segments(1, 0b11'0000'0100, command, payload);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&command);
  EXPECT_EQ(bytes[15], 0);
  EXPECT_EQ(bytes[16], 17);
  EXPECT_EQ(bytes[23], 24);
  EXPECT_EQ(bytes[24], 0);
  EXPECT_EQ(payload[0], std::byte{65});
  EXPECT_EQ(payload[15], std::byte{80});
  EXPECT_EQ(payload[16], std::byte{0});
}

TEST_F(SessionViewTest, SegmentsOutsideTheCommandAreIgnored) {
  write_command(1, 256, 0);
  abi::CommandHeader command{};
  std::byte payload[264] = {};
  view_.copy_segments(1, ~std::uint64_t{0}, command, payload);
  EXPECT_EQ(command.qpn, 17u);
  EXPECT_EQ(payload[255], std::byte{0}) << "1 + 255 in a byte";
  EXPECT_EQ(payload[254], std::byte{255});
  EXPECT_EQ(payload[256], std::byte{0});
}

TEST_F(SessionViewTest, ScoreboardComesAsItIs) {
  page(4).scoreboard = 0xff'ffff'ffffu | abi::kExplicitKick;
  EXPECT_EQ(view_.scoreboard(4), 0xff'ffff'ffffu | abi::kExplicitKick);
  EXPECT_EQ(view_.scoreboard(3), 0u);
}

TEST_F(SessionViewTest, DoorbellsComeInOrderAndFreeTheirSlots) {
  Doorbell doorbell;
  EXPECT_EQ(take(view_, doorbell), Take::kEmpty);
  for (std::uint32_t i = 0; i < 3 * kDoorbellEntries; ++i) {
    ring_doorbell({i, i + 1});
    ASSERT_EQ(take(view_, doorbell), Take::kTaken);
    EXPECT_EQ(doorbell.qpn, i);
    EXPECT_EQ(doorbell.sequence, i + 1);
    EXPECT_EQ(header().doorbell_consumer.load(), i + 1);
  }
  EXPECT_EQ(take(view_, doorbell), Take::kEmpty);
}

/// The next engine takes it again.
TEST_F(SessionViewTest, DoorbellThatIsNotTaken_KeepsItsSlot) {
  Doorbell doorbell;
  ring_doorbell({7, 8});
  ASSERT_EQ(view_.next_doorbell(doorbell), Take::kTaken);
  EXPECT_EQ(header().doorbell_consumer.load(), 0u);
  SessionView next = SessionView::resume(area_.base(), kVcbs);
  ASSERT_EQ(take(next, doorbell), Take::kTaken);
  EXPECT_EQ(doorbell.qpn, 7u);
  EXPECT_EQ(header().doorbell_consumer.load(), 1u);
}

TEST_F(SessionViewTest, DoorbellCountersWrapAt32Bits) {
  header().doorbell_producer = 0xfffffffe;
  SessionView view(area_.base(), kVcbs, 0xfffffffe);
  Doorbell doorbell;
  EXPECT_EQ(take(view, doorbell), Take::kEmpty);
  for (std::uint32_t i = 0; i < kDoorbellEntries; ++i) ring_doorbell({i, 0xfffffffe + i});
  for (std::uint32_t i = 0; i < kDoorbellEntries; ++i) {
    ASSERT_EQ(take(view, doorbell), Take::kTaken);
    EXPECT_EQ(doorbell.qpn, i);
  }
  EXPECT_EQ(take(view, doorbell), Take::kEmpty);
  EXPECT_TRUE(view.park());
}

TEST_F(SessionViewTest, AFullDoorbellRingIsHonestOneMoreIsHostile) {
  Doorbell doorbell;
  header().doorbell_producer = kDoorbellEntries;
  EXPECT_EQ(take(view_, doorbell), Take::kTaken);
  SessionView fresh(area_.base(), kVcbs);
  header().doorbell_producer = kDoorbellEntries + 1;
  EXPECT_EQ(take(fresh, doorbell), Take::kHostile);
  header().doorbell_producer = 0xffffffff;
  EXPECT_EQ(take(fresh, doorbell), Take::kHostile) << "and stays so";
}

TEST_F(SessionViewTest, AProducerThatRunsBackwardsIsHostile) {
  Doorbell doorbell;
  ring_doorbell({1, 1});
  ASSERT_EQ(take(view_, doorbell), Take::kTaken);
  header().doorbell_producer = 0;
  EXPECT_EQ(take(view_, doorbell), Take::kHostile);
}

TEST_F(SessionViewTest, ParksOnlyWithoutWork) {
  EXPECT_FALSE(view_.has_work());
  EXPECT_TRUE(view_.park());
  EXPECT_EQ(header().parked.load(), 1u);
  view_.unpark();
  EXPECT_EQ(header().parked.load(), 0u);

  header().active ^= 1;
  EXPECT_TRUE(view_.has_work());
  EXPECT_FALSE(view_.park());
  EXPECT_EQ(header().parked.load(), 0u);
  view_.release(1);
  EXPECT_TRUE(view_.park());
  view_.unpark();

  ring_doorbell({1, 1});
  EXPECT_TRUE(view_.has_work());
  EXPECT_FALSE(view_.park());
}

/// The next engine takes nothing twice and overlooks nothing.
TEST_F(SessionViewTest, Resume_GoesOnWhereTheEarlierEngineWas) {
  view_.grant(kVcbs);
  EXPECT_EQ(view_.revoke(3), 3u);
  header().active ^= 0b111;
  view_.release(0b001);
  ring_doorbell({1, 1});
  ring_doorbell({2, 2});
  Doorbell doorbell;
  ASSERT_EQ(take(view_, doorbell), Take::kTaken);
  ASSERT_FALSE(view_.park());
  header().active ^= 0b001;
  SessionView next = SessionView::resume(area_.base(), kVcbs);
  EXPECT_EQ(next.granted(), 3u);
  EXPECT_EQ(next.pending(), 0b111u);
  EXPECT_EQ(next.doorbells(), 1u);
  ASSERT_EQ(take(next, doorbell), Take::kTaken);
  EXPECT_EQ(doorbell.qpn, 2u);
  next.release(0b111);
  EXPECT_EQ(next.pending(), 0u);
  EXPECT_FALSE(next.has_work());
}

TEST_F(SessionViewTest, Resume_WhatTheTenantHasWrittenGrantsNoMoreThanThereIs) {
  header().granted.store(~std::uint64_t{0});
  header().parked.store(1);
  const SessionView next = SessionView::resume(area_.base(), kVcbs);
  EXPECT_EQ(next.granted(), kVcbs);
  EXPECT_EQ(header().granted.load(), 0b11111u);
  EXPECT_EQ(header().parked.load(), 0u);
}

}  // namespace
}  // namespace softhca::shm
