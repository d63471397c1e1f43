// SPDX-License-Identifier: Apache-2.0

// The layout that provider and daemon agree on, byte by byte. A change here is a new kAbiVersion:
// the two sides are installed apart.
#include <gtest/gtest.h>

#include "abi/rings.hpp"
#include "abi/session.hpp"

namespace softhca::abi {
namespace {

TEST(Layout, Version) { EXPECT_EQ(kAbiVersion, 4u); }

TEST(Layout, CommandHeader) {
  EXPECT_EQ(sizeof(CommandHeader), 64u);
  EXPECT_EQ(offsetof(CommandHeader, opcode), 0u);
  EXPECT_EQ(offsetof(CommandHeader, flags), 1u);
  EXPECT_EQ(offsetof(CommandHeader, payload_bytes), 2u);
  EXPECT_EQ(offsetof(CommandHeader, qpn), 4u);
  EXPECT_EQ(offsetof(CommandHeader, sequence), 8u);
  EXPECT_EQ(offsetof(CommandHeader, checksum), 12u);
  EXPECT_EQ(offsetof(CommandHeader, remote_addr), 16u);
  EXPECT_EQ(offsetof(CommandHeader, rkey), 24u);
  EXPECT_EQ(offsetof(CommandHeader, imm), 28u);
  EXPECT_EQ(offsetof(CommandHeader, compare_add), 32u);
  EXPECT_EQ(offsetof(CommandHeader, swap), 40u);
  EXPECT_EQ(offsetof(CommandHeader, remote_qpn), 48u);
  EXPECT_EQ(offsetof(CommandHeader, remote_qkey), 52u);
  EXPECT_EQ(offsetof(CommandHeader, address_handle), 56u);
  EXPECT_EQ(offsetof(CommandHeader, remote_srq), 60u);
}

TEST(Layout, ScatterGather) {
  EXPECT_EQ(sizeof(ScatterGather), 16u);
  EXPECT_EQ(offsetof(ScatterGather, addr), 0u);
  EXPECT_EQ(offsetof(ScatterGather, length), 8u);
  EXPECT_EQ(offsetof(ScatterGather, lkey), 12u);
}

TEST(Layout, ReceiveElement) {
  EXPECT_EQ(sizeof(ReceiveElement), 16u);
  EXPECT_EQ(offsetof(ReceiveElement, index), 0u);
  EXPECT_EQ(offsetof(ReceiveElement, num_sge), 4u);
  EXPECT_EQ(offsetof(ReceiveElement, reserved), 8u);
}

TEST(Layout, RingLocation) {
  EXPECT_EQ(sizeof(RingLocation), 16u);
  EXPECT_EQ(offsetof(RingLocation, segment), 0u);
  EXPECT_EQ(offsetof(RingLocation, bytes), 4u);
  EXPECT_EQ(offsetof(RingLocation, offset), 8u);
}

TEST(Layout, ReceiveRingHeader) {
  EXPECT_EQ(sizeof(ReceiveRingHeader), 64u);
  EXPECT_EQ(offsetof(ReceiveRingHeader, producer), 0u);
}

TEST(Layout, CompletionRingHeader) {
  EXPECT_EQ(sizeof(CompletionRingHeader), 64u);
  EXPECT_EQ(offsetof(CompletionRingHeader, consumer), 0u);
  EXPECT_EQ(offsetof(CompletionRingHeader, arm), 4u);
}

TEST(Layout, CompletionElement) {
  EXPECT_EQ(sizeof(CompletionElement), 32u);
  EXPECT_EQ(offsetof(CompletionElement, qpn), 0u);
  EXPECT_EQ(offsetof(CompletionElement, index), 4u);
  EXPECT_EQ(offsetof(CompletionElement, byte_len), 8u);
  EXPECT_EQ(offsetof(CompletionElement, imm), 12u);
  EXPECT_EQ(offsetof(CompletionElement, timestamp), 16u);
  EXPECT_EQ(offsetof(CompletionElement, status), 24u);
  EXPECT_EQ(offsetof(CompletionElement, opcode), 25u);
  EXPECT_EQ(offsetof(CompletionElement, flags), 26u);
  EXPECT_EQ(offsetof(CompletionElement, is_receive), 27u);
  EXPECT_EQ(offsetof(CompletionElement, owner), 28u);
}

TEST(Layout, Doorbell) {
  EXPECT_EQ(sizeof(Doorbell), 8u);
  EXPECT_EQ(offsetof(Doorbell, qpn), 0u);
  EXPECT_EQ(offsetof(Doorbell, sequence), 4u);
}

TEST(Layout, SessionHeader) {
  EXPECT_EQ(sizeof(SessionHeader), 192u);
  EXPECT_EQ(offsetof(SessionHeader, active), 0u);
  EXPECT_EQ(offsetof(SessionHeader, doorbell_producer), 8u);
  EXPECT_EQ(offsetof(SessionHeader, released), 64u);
  EXPECT_EQ(offsetof(SessionHeader, doorbell_consumer), 72u);
  EXPECT_EQ(offsetof(SessionHeader, parked), 76u);
  EXPECT_EQ(offsetof(SessionHeader, magic), 128u);
  EXPECT_EQ(offsetof(SessionHeader, version), 136u);
  EXPECT_EQ(offsetof(SessionHeader, vcbs), 140u);
}

TEST(Layout, VcbPage) {
  EXPECT_EQ(sizeof(VcbPage), 4096u);
  EXPECT_EQ(offsetof(VcbPage, command), 0u);
  EXPECT_EQ(offsetof(VcbPage, scoreboard), 448u);
}

}  // namespace
}  // namespace softhca::abi
