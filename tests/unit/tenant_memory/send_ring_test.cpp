// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/send_ring_overflow_buffer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

class SendRingTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kEntries = 4;
  static constexpr std::uint32_t kStride = abi::send_stride(4, 64);  // 64 bytes of payload

  SendRingTest()
      : area_(SendRing::bytes_for(kEntries, kStride)), ring_(area_.base(), kEntries, kStride) {}

  void write(std::uint32_t slot, std::uint16_t payload_bytes, std::uint8_t flags = 0) {
    abi::CommandHeader header{};
    header.flags = flags;
    header.payload_bytes = payload_bytes;
    header.remote_addr = 1000 + slot;
    std::memcpy(area_.base() + slot * kStride, &header, sizeof header);
    auto* payload = reinterpret_cast<std::uint8_t*>(area_.base() + slot * kStride + 64);
    std::iota(payload, payload + 64, std::uint8_t{1});
  }

  SharedArea area_;
  SendRing ring_;
  abi::CommandHeader header_{};
  std::byte payload_[256] = {};
};

TEST_F(SendRingTest, FindsTheSlotOfASequenceNumberAcrossTheWrap) {
  for (std::uint32_t slot = 0; slot < kEntries; ++slot) write(slot, 16);
  for (const std::uint32_t sequence : {0u, 3u, 4u, 0xfffffffeu, 0xffffffffu}) {
    ASSERT_EQ(ring_.copy(sequence, header_, payload_), Verdict::kOk);
    EXPECT_EQ(header_.remote_addr, 1000 + sequence % kEntries);
  }
}

TEST_F(SendRingTest, CopiesOnlyThePayloadInUse) {
  write(1, 48);
  ASSERT_EQ(ring_.copy(1, header_, payload_), Verdict::kOk);
  EXPECT_EQ(payload_[47], std::byte{48});
  EXPECT_EQ(payload_[48], std::byte{0});
}

TEST_F(SendRingTest, APayloadEndsWithItsSlot) {
  write(kEntries - 1, 64);
  EXPECT_EQ(ring_.copy(kEntries - 1, header_, payload_), Verdict::kOk);
  write(kEntries - 1, 80);
  EXPECT_EQ(ring_.copy(kEntries - 1, header_, payload_), Verdict::kLocalQpOperation);
  write(kEntries - 1, 65, abi::kCommandInline);
  EXPECT_EQ(ring_.copy(kEntries - 1, header_, payload_), Verdict::kLocalQpOperation);
  write(kEntries - 1, 0xffff, abi::kCommandInline);
  EXPECT_EQ(ring_.copy(kEntries - 1, header_, payload_), Verdict::kLocalQpOperation);
}

TEST_F(SendRingTest, EntriesAreWholeInlineDataNeedNotBe) {
  write(0, 17);
  EXPECT_EQ(ring_.copy(0, header_, payload_), Verdict::kLocalQpOperation);
  write(0, 17, abi::kCommandInline);
  EXPECT_EQ(ring_.copy(0, header_, payload_), Verdict::kOk);
}

TEST(SendRing, NeverCopiesMoreThanACommandHoldsHoweverWideTheSlot) {
  constexpr std::uint32_t kWide = 512;
  const SharedArea area(kWide);
  const SendRing ring(area.base(), 1, kWide);
  area.at<abi::CommandHeader>(0).payload_bytes = 272;
  abi::CommandHeader header;
  std::byte payload[256];
  EXPECT_EQ(ring.copy(0, header, payload), Verdict::kLocalQpOperation);
}

}  // namespace
}  // namespace softhca::shm
