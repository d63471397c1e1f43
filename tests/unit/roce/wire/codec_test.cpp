// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/codec.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::wire {
namespace {

using test::Bytes;

Bytes from_hex(const std::string& text) {
  Bytes b;
  std::string digits;
  for (const char c : text)
    if (c != ' ') digits += c;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    b.push_back(std::byte(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return b;
}

Bytes encoded(const Headers& h, std::size_t payload_length = 0) {
  Bytes b(kMaxHeaderLength, std::byte{0xa5});
  b.resize(encode(h, payload_length, b.data()));
  return b;
}

Headers decoded(const Bytes& packet) {
  Headers h;
  EXPECT_EQ(decode(packet, h), DropReason::kNone);
  return h;
}

TEST(Codec, BaseHeader) {
  Headers h;
  h.opcode = raw(Opcode::kRcSendOnly);
  h.solicited = true;
  h.migrated = false;
  h.becn = true;
  h.ack_request = true;
  h.pkey = 0x8001;
  h.destination = Qpn(0x123456);
  h.psn = Psn(0xfffffe);
  EXPECT_EQ(encoded(h), from_hex("04 80 8001 40 123456 80 fffffe"));
  EXPECT_EQ(encoded(h, 5), from_hex("04 b0 8001 40 123456 80 fffffe"));

  const Headers back = decoded(encoded(h));
  EXPECT_TRUE(back.solicited);
  EXPECT_FALSE(back.migrated);
  EXPECT_FALSE(back.fecn);
  EXPECT_TRUE(back.becn);
  EXPECT_TRUE(back.ack_request);
  EXPECT_EQ(back.pkey, 0x8001);
  EXPECT_EQ(back.destination, Qpn(0x123456));
  EXPECT_EQ(back.psn, Psn(0xfffffe));
}

TEST(Codec, FlagsAreIndependent) {
  const Headers migrated = decoded(from_hex("04 40 ffff 80 000001 00 000000"));
  EXPECT_TRUE(migrated.migrated);
  EXPECT_FALSE(migrated.solicited);
  EXPECT_TRUE(migrated.fecn);
  EXPECT_FALSE(migrated.becn);
  EXPECT_FALSE(migrated.ack_request);
}

TEST(Codec, RdmaHeaderAndImmediate) {
  const Bytes packet =
      from_hex("0b 00 ffff 00 000011 80 000001  0011223344556677 89abcdef 00001000  deadbeef");
  Headers h = decoded(packet);
  EXPECT_EQ(h.remote_addr, 0x0011223344556677u);
  EXPECT_EQ(h.rkey, Rkey(0x89abcdef));
  EXPECT_EQ(h.dma_length, 0x1000u);
  EXPECT_EQ(std::to_integer<int>(std::as_bytes(std::span(&h.imm, 1))[0]), 0xde);
  EXPECT_EQ(encoded(h), packet);
}

TEST(Codec, AtomicHeader) {
  const Bytes packet = from_hex(
      "13 00 ffff 00 000011 80 000001  0011223344556677 89abcdef 0102030405060708 "
      "1112131415161718");
  const Headers h = decoded(packet);
  EXPECT_EQ(h.remote_addr, 0x0011223344556677u);
  EXPECT_EQ(h.rkey, Rkey(0x89abcdef));
  EXPECT_EQ(h.swap_add, 0x0102030405060708u);
  EXPECT_EQ(h.compare, 0x1112131415161718u);
  EXPECT_EQ(encoded(h), packet);
}

TEST(Codec, AtomicAcknowledge) {
  const Bytes packet = from_hex("12 00 ffff 00 000011 00 000001  1f 000203  f102030405060708");
  const Headers h = decoded(packet);
  EXPECT_EQ(h.syndrome, kSyndromeAck | kSyndromeNoCreditLimit);
  EXPECT_EQ(h.msn, 0x203u);
  EXPECT_EQ(h.original, 0xf102030405060708u);
  EXPECT_EQ(encoded(h), packet);
}

TEST(Codec, DatagramHeader) {
  const Bytes packet = from_hex("65 00 ffff 00 000001 00 000000  80010000 00 000042  00000007");
  const Headers h = decoded(packet);
  EXPECT_EQ(h.qkey, 0x80010000u);
  EXPECT_EQ(h.source, Qpn(0x42));
  EXPECT_EQ(encoded(h), packet);
}

TEST(Codec, InvalidateAndExtendedReliableConnection) {
  const Bytes packet = from_hex("b7 00 ffff 00 000011 00 000000  00 00abcd  12345678");
  const Headers h = decoded(packet);
  EXPECT_EQ(h.xrc_srq, 0xabcdu);
  EXPECT_EQ(h.invalidate, Rkey(0x12345678));
  EXPECT_EQ(encoded(h), packet);
}

TEST(Codec, CongestionNotificationIsZeroFilled) {
  Headers h;
  h.opcode = raw(Opcode::kCnp);
  h.becn = true;
  h.migrated = false;
  h.destination = Qpn(7);
  EXPECT_EQ(encoded(h), from_hex("81 00 ffff 40 000007 00 000000 "
                                 "00000000 00000000 00000000 00000000"));
}

TEST(Codec, HeadersThatAreNotPresentAreZero) {
  Headers h;
  h.remote_addr = 1;
  h.syndrome = 2;
  h.imm = 3;
  ASSERT_EQ(decode(from_hex("04 00 ffff 00 000011 00 000000"), h), DropReason::kNone);
  EXPECT_EQ(h.remote_addr, 0u);
  EXPECT_EQ(h.syndrome, 0);
  EXPECT_EQ(h.imm, 0u);
}

/// Random bytes behind each opcode come back the same, but for the reserved bits.
TEST(Codec, EveryOpcodeRoundTrips) {
  std::mt19937 random(1);
  for (int v = 0; v < 256; ++v) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(v));
    if (!info.is_known()) continue;
    SCOPED_TRACE(info.name);
    for (int round = 0; round < 100; ++round) {
      Bytes packet(info.header_length);
      for (std::byte& b : packet) b = std::byte(random());
      packet[0] = std::byte(v);
      packet[1] &= std::byte{0xc0};
      packet[4] &= std::byte{0xc0};
      packet[8] &= std::byte{0x80};
      if (info.mask.has_any(kDeth)) packet[kBthLength + 4] = std::byte{0};
      if (info.mask.has_any(kXrcEth)) packet[kBthLength] = std::byte{0};
      if (info.mask.has_any(kCnpReserved))
        std::fill(packet.begin() + kBthLength, packet.end(), std::byte{0});
      EXPECT_EQ(encoded(decoded(packet)), packet);
    }
  }
}

TEST(Codec, RefusesMalformedPackets) {
  Headers h;
  const auto reason = [&](const std::string& hex) { return decode(from_hex(hex), h); };
  EXPECT_EQ(reason(""), DropReason::kShortPacket);
  EXPECT_EQ(reason("04 00 ffff 00 000011 00 0000"), DropReason::kShortPacket);
  EXPECT_EQ(reason("11 00 ffff 00 000011 00 000000 1f0000"), DropReason::kShortPacket);
  EXPECT_EQ(reason("04 01 ffff 00 000011 00 000000"), DropReason::kBadVersion);
  EXPECT_EQ(reason("15 00 ffff 00 000011 00 000000"), DropReason::kUnknownOpcode);
  EXPECT_EQ(reason("ff 00 ffff 00 000011 00 000000"), DropReason::kUnknownOpcode);
  EXPECT_EQ(reason("04 10 ffff 00 000011 00 000000"), DropReason::kBadPad);
  EXPECT_EQ(reason("04 00 ffff 00 000011 00 000000 01"), DropReason::kBadPad);
  EXPECT_EQ(reason("04 30 ffff 00 000011 00 000000 01000000"), DropReason::kNone);
  EXPECT_EQ(reason("11 00 ffff 00 000011 00 000000 1f000001 00000000"),
            DropReason::kUnexpectedPayload);
  EXPECT_EQ(reason("11 30 ffff 00 000011 00 000000 1f000001"), DropReason::kBadPad);
}

TEST(Codec, EveryLengthOfEveryOpcodeIsSafe) {
  for (int v = 0; v < 256; ++v) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(v));
    for (std::size_t n = 0; n <= kMaxHeaderLength; ++n) {
      Bytes packet(n);
      if (n > 0) packet[0] = std::byte(v);
      Headers h;
      const bool is_whole = info.is_known() && n >= info.header_length;
      const DropReason reason = decode(packet, h);
      if (!is_whole) {
        EXPECT_NE(reason, DropReason::kNone) << v << ' ' << n;
      } else if (n == info.header_length) {
        EXPECT_EQ(reason, DropReason::kNone) << v << ' ' << n;
      }
    }
  }
}

}  // namespace
}  // namespace softhca::wire
