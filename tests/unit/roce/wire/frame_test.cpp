// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/frame.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/icrc.hpp"
#include "daemon/roce/wire/source_port.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using test::build;
using test::Bytes;
using test::counting_payload;

Headers send_only() {
  Headers h;
  h.opcode = raw(Opcode::kRcSendOnly);
  h.destination = Qpn(0x11);
  return h;
}

DropReason parse(const Bytes& frame) {
  ParsedFrame f;
  return parse_frame(frame, f);
}

/// The definition, bit by bit, on a copy of the packet with ones in the changing fields.
std::uint32_t reference_icrc(Bytes packet) {
  const auto ones = [&](std::size_t at) { packet[at] = std::byte{0xff}; };
  const bool is_ipv4 = std::to_integer<int>(packet[0]) >> 4 == 4;
  const std::size_t udp = is_ipv4 ? 20 : 40;
  if (is_ipv4) {
    for (const std::size_t at : {1, 8, 10, 11}) ones(at);
  } else {
    packet[0] |= std::byte{0x0f};
    for (const std::size_t at : {1, 2, 3, 7}) ones(at);
  }
  for (const std::size_t at : {udp + 6, udp + 7, udp + 8 + 4}) ones(at);
  packet.insert(packet.begin(), 8, std::byte{0xff});
  std::uint32_t crc = 0xffffffff;
  for (const std::byte b : packet) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

TEST(Icrc, EqualsTheDefinitionAtEveryLength) {
  std::mt19937 random(7);
  for (const int version : {4, 6})
    for (std::size_t n = 60; n < 400; ++n) {
      Bytes packet(n);
      for (std::byte& b : packet) b = std::byte(random());
      packet[0] = std::byte(version << 4 | 5);
      EXPECT_EQ(icrc(packet), reference_icrc(packet)) << version << ' ' << n;
    }
}

struct Shape {
  const char* name;
  bool ipv6;
  bool tagged;
};

class EveryShape : public testing::TestWithParam<Shape> {
 protected:
  FramePath path() const {
    FramePath p = GetParam().ipv6 ? test::ipv6_path() : test::ipv4_path();
    if (GetParam().tagged) p.vlan = 0x6007;
    p.traffic_class = 0x6b;
    p.hop_limit = 17;
    if (GetParam().ipv6) p.flow_label = 0xabcde;
    return p;
  }
};

TEST_P(EveryShape, RoundTripsAtEveryPayloadLength) {
  for (std::size_t n = 0; n < 300; ++n) {
    const Bytes payload = counting_payload(n);
    const Bytes frame = build(path(), send_only(), payload, static_cast<std::uint16_t>(n * 977));
    ParsedFrame f;
    ASSERT_EQ(parse_frame(frame, f), DropReason::kNone);
    EXPECT_TRUE(check_icrc(f));
    EXPECT_EQ(f.ethernet.source, path().source_mac);
    EXPECT_EQ(f.ethernet.destination, path().destination_mac);
    EXPECT_EQ(f.ethernet.vlan, path().vlan);
    EXPECT_EQ(f.source, path().source);
    EXPECT_EQ(f.destination, path().destination);
    EXPECT_EQ(f.traffic_class, 0x6b);
    EXPECT_TRUE(f.is_congested());
    EXPECT_EQ(f.hop_limit, 17);
    EXPECT_EQ(f.flow_label, path().flow_label);
    EXPECT_EQ(f.udp_source_port, 0xc123);
    EXPECT_EQ(f.headers.destination, Qpn(0x11));
    EXPECT_EQ(f.headers.pad, (4 - n % 4) % 4);
    EXPECT_TRUE(std::ranges::equal(f.payload, payload));
    EXPECT_EQ(test::rebuild(f), frame);
  }
}

TEST_P(EveryShape, RoutingHeaderWithAndWithoutFrameAgree) {
  const Bytes payload = counting_payload(101);
  Headers h;
  h.opcode = raw(Opcode::kUdSendOnlyImm);
  const Bytes frame = build(path(), h, payload, 0);
  ParsedFrame f;
  ASSERT_EQ(parse_frame(frame, f), DropReason::kNone);
  std::array<std::byte, kGrhLength> from_frame;
  std::array<std::byte, kGrhLength> from_path;
  from_frame.fill(std::byte{0xa5});
  from_path.fill(std::byte{0x5a});
  grh_bytes(f, from_frame);
  grh_bytes(FrameTemplate(path()), h.opcode, payload.size(), from_path);
  EXPECT_EQ(from_frame, from_path);

  const std::size_t ip = GetParam().tagged ? 18 : 14;
  const std::size_t length = GetParam().ipv6 ? 40 : 20;
  EXPECT_TRUE(
      std::ranges::equal(std::span(from_frame).last(length), std::span(frame).subspan(ip, length)));
  for (std::size_t i = 0; i < kGrhLength - length; ++i) EXPECT_EQ(from_frame[i], std::byte{0});
}

TEST_P(EveryShape, LinkPaddingIsIgnored) {
  Bytes frame = build(path(), send_only(), {}, 1);
  frame.insert(frame.end(), 13, std::byte{0xee});
  ParsedFrame f;
  ASSERT_EQ(parse_frame(frame, f), DropReason::kNone);
  EXPECT_TRUE(check_icrc(f));
  EXPECT_TRUE(f.payload.empty());
}

INSTANTIATE_TEST_SUITE_P(Frame, EveryShape,
                         testing::Values(Shape{"ipv4", false, false}, Shape{"ipv6", true, false},
                                         Shape{"ipv4_tagged", false, true},
                                         Shape{"ipv6_tagged", true, true}),
                         [](const auto& shape) { return shape.param.name; });

/// A frame with the IPv4 checksum put right after a change to its header.
Bytes with_checksum(Bytes frame) {
  std::byte* ip = &frame[14];
  ip[10] = ip[11] = std::byte{0};
  const auto sum = static_cast<std::uint16_t>(~fold_checksum(add_checksum({ip, 20}, 0)));
  std::memcpy(ip + 10, &sum, 2);
  return frame;
}

class MalformedIpv4 : public testing::Test {
 protected:
  DropReason with(std::size_t at, std::uint8_t value) {
    Bytes f = frame_;
    f.at(at) = std::byte{value};
    return parse(with_checksum(f));
  }
  Bytes frame_ = build(test::ipv4_path(), send_only(), counting_payload(64));
};

TEST_F(MalformedIpv4, IsNamed) {
  ASSERT_EQ(parse(frame_), DropReason::kNone);
  EXPECT_EQ(with(12, 0x88), DropReason::kNotIp);
  EXPECT_EQ(with(14, 0x46), DropReason::kBadIpHeader);
  EXPECT_EQ(with(14, 0x65), DropReason::kBadIpHeader);
  EXPECT_EQ(with(17, 0xff), DropReason::kBadIpLength);  // beyond the frame
  EXPECT_EQ(with(17, 19), DropReason::kBadIpLength);    // within the IP header
  EXPECT_EQ(with(17, 27), DropReason::kBadIpLength);    // within the UDP header
  EXPECT_EQ(with(17, 104), DropReason::kBadUdpLength);  // shorter than UDP says
  EXPECT_EQ(with(20, 0x20), DropReason::kFragment);     // more fragments
  EXPECT_EQ(with(21, 0x01), DropReason::kFragment);     // offset
  EXPECT_EQ(with(23, 6), DropReason::kNotUdp);
  EXPECT_EQ(with(37, 0xb8), DropReason::kOtherPort);
  EXPECT_EQ(with(39, 0), DropReason::kBadUdpLength);
  EXPECT_EQ(with(42, 0x15), DropReason::kUnknownOpcode);
  EXPECT_EQ(with(43, 0x01), DropReason::kBadVersion);
  Bytes damaged = frame_;
  damaged[24] ^= std::byte{1};
  EXPECT_EQ(parse(damaged), DropReason::kBadIpChecksum);
}

TEST_F(MalformedIpv4, TooShortForTransport) {
  // IP and UDP agree on a datagram with room for neither headers nor ICRC.
  Bytes f(frame_.begin(), frame_.begin() + 14 + 20 + 8 + 15);
  f[17] = std::byte{20 + 8 + 15};
  f[39] = std::byte{8 + 15};
  EXPECT_EQ(parse(with_checksum(f)), DropReason::kShortPacket);
}

TEST(MalformedIpv6, IsNamed) {
  const Bytes frame = build(test::ipv6_path(), send_only(), counting_payload(64));
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes f = frame;
    f.at(at) = std::byte{value};
    return parse(f);
  };
  ASSERT_EQ(parse(frame), DropReason::kNone);
  EXPECT_EQ(with(14, 0x45), DropReason::kBadIpHeader);
  EXPECT_EQ(with(19, 0xff), DropReason::kBadIpLength);
  EXPECT_EQ(with(19, 7), DropReason::kBadIpLength);
  EXPECT_EQ(with(19, 80), DropReason::kBadUdpLength);
  EXPECT_EQ(with(20, 58), DropReason::kNotUdp);
  EXPECT_EQ(with(57, 0xb8), DropReason::kOtherPort);
}

TEST(MalformedIpv6, MappedAddressesArePretence) {
  Bytes frame = build(test::ipv6_path(), send_only(), {});
  const Gid mapped = Gid::from_ipv4(0x0a090001);
  store_ipv6(&frame[14 + 8], mapped);
  EXPECT_EQ(parse(frame), DropReason::kBadIpHeader);
}

TEST(MalformedSource, IsNobodysAddress) {
  const auto from = [](std::uint32_t ipv4) {
    FramePath path = test::ipv4_path();
    path.source = Gid::from_ipv4(ipv4);
    return parse(build(path, send_only(), {}));
  };
  EXPECT_EQ(from(0x0a000001), DropReason::kNone);
  for (const std::uint32_t nobody : {0u, 0xe0000001u, 0xefffffffu, 0xffffffffu})
    EXPECT_EQ(from(nobody), DropReason::kBadIpHeader) << nobody;
  Bytes frame = build(test::ipv6_path(), send_only(), {});
  ASSERT_EQ(parse(frame), DropReason::kNone);
  Gid group;
  group.bytes[0] = 0xff;
  for (const Gid& nobody : {Gid(), group}) {
    store_ipv6(&frame[14 + 8], nobody);
    EXPECT_EQ(parse(frame), DropReason::kBadIpHeader);
  }
}

TEST(SourcePort, FollowsFlowLabelOrQueuePairs) {
  EXPECT_EQ(source_port(0, Qpn(0x11), Qpn(0x11)), 49441);
  EXPECT_EQ(source_port(0x12345, Qpn(0x11), Qpn(0x11)), 58177);
  EXPECT_EQ(source_port(0, Qpn(0x123456), Qpn(0xabcdef)),
            source_port(0, Qpn(0xabcdef), Qpn(0x123456)));
  EXPECT_EQ(datagram_source_port(Qpn(1)), 55410);
  EXPECT_GE(source_port(0xfffff), kSourcePortBase);
  EXPECT_GE(source_port(0, Qpn(0xffffff), Qpn(0xffffff)), kSourcePortBase);
}

TEST(DropReasons, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(DropReason::kCount); ++i) {
    const std::string text = name(static_cast<DropReason>(i));
    EXPECT_NE(text, "unknown");
    EXPECT_TRUE(names.insert(text).second) << text;
  }
}

}  // namespace
}  // namespace softhca::wire
