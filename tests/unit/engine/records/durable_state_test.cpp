// SPDX-License-Identifier: Apache-2.0

// The memory that an engine leaves for the next one: its header, and how a queue pair stands.
#include "daemon/engine/records/durable_state.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace softhca::engine {
namespace {

constexpr DurableState::Sizes kSizes{.queue_pairs = 8, .memory_regions = 5, .memory_windows = 3};

class DurableStateTest : public ::testing::Test {
 protected:
  struct alignas(4096) Page {
    std::byte bytes[4096] = {};
  };

  std::span<std::byte> bytes() { return {pages[0].bytes, pages.size() * sizeof(Page)}; }
  void put(std::size_t at, std::uint32_t value) {
    std::memcpy(bytes().data() + at, &value, sizeof value);
  }
  std::string refusal() {
    const auto sizes = DurableState::check(bytes());
    return sizes ? "" : sizes.error().message;
  }

  std::vector<Page> pages = std::vector<Page>(DurableState::bytes_for(kSizes) / sizeof(Page));
};

TEST_F(DurableStateTest, FormattedMemory_IsFoundByTheNext) {
  EXPECT_FALSE(refusal().empty()) << "it is zero";
  {
    DurableState state(kSizes, bytes());
    EXPECT_FALSE(state.is_inherited());
    state.queue_pair(3).posted_end = 77;
    state.receive(3).index = 78;
    state.windows()[2].key = 79;
    state.regions().all[4].key = 80;
    *state.regions().last_serial = 81;
    state.replays(3).all[127].packets = 82;
    *state.replays(3).used = 83;
  }
  const auto sizes = DurableState::check(bytes());
  ASSERT_TRUE(sizes) << sizes.error().message;
  EXPECT_EQ(*sizes, kSizes);
  DurableState next(*sizes, bytes());
  EXPECT_TRUE(next.is_inherited());
  EXPECT_EQ(next.queue_pair(3).posted_end, 77u);
  EXPECT_EQ(next.queue_pair(3).replays_used, 83u);
  EXPECT_EQ(next.receive(3).index, 78u);
  EXPECT_EQ(next.windows()[2].key, 79u);
  EXPECT_EQ(next.regions().all[4].key, 80u);
  EXPECT_EQ(*next.regions().last_serial, 81u);
  EXPECT_EQ(next.replays(3).all[127].packets, 82u);
}

TEST_F(DurableStateTest, WithoutMemory_StartsEmpty) {
  DurableState state(kSizes);
  EXPECT_FALSE(state.is_inherited());
  EXPECT_EQ(state.slots(), 10u);
  EXPECT_EQ(state.queue_pair(9).in_use, 0u);
}

TEST_F(DurableStateTest, OtherMemory_RefusedWithTheReason) {
  { const DurableState state(kSizes, bytes()); }
  const auto expect = [&](std::size_t at, std::uint32_t value, const char* reason) {
    std::uint32_t before = 0;
    std::memcpy(&before, bytes().data() + at, sizeof before);
    put(at, value);
    EXPECT_NE(refusal().find(reason), std::string::npos) << at << ": " << refusal();
    put(at, before);
    EXPECT_EQ(refusal(), "");
  };
  expect(0, 1, "does not begin with the mark");
  expect(8, 9, "version 9, this adapter reads version 1");
  expect(12, 1u << 30, "sizes are beyond");
  expect(16, 0xffffffff, "sizes are beyond");
  expect(20, 1u << 20, "sizes are beyond");
  expect(12, 64, "bytes, expected");
  for (std::size_t at = 24; at < 48; at += 4) expect(at, 1, "elements have other sizes");
  for (std::size_t at = 56; at < 64; at += 4) expect(at, 1, "elements have other sizes");
  const auto short_one = DurableState::check(bytes().first(16));
  ASSERT_FALSE(short_one);
  EXPECT_NE(short_one.error().message.find("16 bytes"), std::string::npos);
}

constexpr std::uint32_t kMtu = 1024;
using Kind = transport::PartOfMessage::Kind;

TEST(QpDurable, PositionsComeBack) {
  QpDurable record{};
  for (const std::uint32_t done : {0u, 5u, 0xffffu, 0x10000u, 0xfffffffeu}) {
    record.posted_end = done + 16384;
    record.store_sent(done, {Psn(0xfffff0), Psn(0xfffffe), Psn(3), Psn(90)});
    EXPECT_EQ(record.done(), done);
    const transport::SentPosition sent = record.sent_position();
    EXPECT_EQ(sent.psn, Psn(0xfffff0));
    EXPECT_EQ(sent.sequence, Psn(0xfffffe));
    EXPECT_EQ(sent.unacked, Psn(3));
    EXPECT_EQ(sent.end, Psn(90));
  }
  for (const std::uint8_t refused : {0x00, 0x61, 0x62, 0x63}) {
    record.store_taken({.expected = Psn(1),
                        .sequence = Psn(0xfffffc),
                        .established = refused == 0x62,
                        .refused = refused,
                        .message = {.kind = Kind::kWrite,
                                    .received = 3 * kMtu,
                                    .remaining = 7,
                                    .rkey = Rkey(8),
                                    .addr = ~std::uint64_t{0},
                                    .xrc_srq = 9}},
                       kMtu);
    const transport::TakenPosition taken = record.taken_position(kMtu);
    EXPECT_EQ(taken.expected, Psn(1));
    EXPECT_EQ(taken.sequence, Psn(0xfffffc));
    EXPECT_EQ(taken.established, refused == 0x62);
    EXPECT_EQ(taken.refused, refused);
    EXPECT_EQ(taken.message.kind, Kind::kWrite);
    EXPECT_EQ(taken.message.received, 3 * kMtu);
    EXPECT_EQ(taken.message.remaining, 7u);
    EXPECT_EQ(taken.message.rkey, Rkey(8));
    EXPECT_EQ(taken.message.addr, ~std::uint64_t{0});
    EXPECT_EQ(taken.message.xrc_srq, 9u);
  }
}

/// The word of a command that is complete is stored, and not yet what lies apart from it.
TEST(QpDurable, SentStoredInPart_GoesOnFromTheWord) {
  QpDurable record{};
  record.store_sent(0, {Psn(10), Psn(1), Psn(12), Psn(13)});
  record.end_sent(QpDurable::sent_word(1, {Psn(20), Psn(2)}));
  EXPECT_EQ(record.sent_position().unacked, Psn(20));
  EXPECT_EQ(record.sent_position().end, Psn(20));
}

/// The next message was described, and none of its packets counted.
TEST(QpDurable, MessageStoredInPart_IsNone) {
  QpDurable record{};
  record.store_taken({.expected = Psn(5), .message = {.kind = Kind::kSend, .received = kMtu}},
                     kMtu);
  EXPECT_EQ(record.taken_position(kMtu).message.kind, Kind::kSend);
  record.message_first = 5;
  EXPECT_EQ(record.taken_position(kMtu).message.kind, Kind::kNone);
  record.message_first = 6;
  EXPECT_EQ(record.taken_position(kMtu).message.kind, Kind::kNone);
}

}  // namespace
}  // namespace softhca::engine
