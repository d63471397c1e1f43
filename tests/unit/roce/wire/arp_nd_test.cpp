// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/arp_nd.hpp"

#include <gtest/gtest.h>

#include "daemon/roce/wire/ip.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::wire {
namespace {

using test::Bytes;

constexpr MacAddress kMacA{{0x02, 0, 0, 0, 0, 0x0a}};
constexpr MacAddress kMacB{{0x02, 0, 0, 0, 0, 0x0b}};
const Gid kIpv4A = Gid::from_ipv4(0x0a090001);
const Gid kIpv4B = Gid::from_ipv4(0x0a090002);
constexpr Gid kIpv6A{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0xa2, 0x4b, 0}};
constexpr Gid kIpv6B{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0xd9, 0x4b, 1}};

/// Runs a builder and returns its frame.
template <class Build>
Bytes made(Build build) {
  std::array<std::byte, kMaxResolutionFrame> out;
  out.fill(std::byte{0xa5});
  const std::size_t n = build(ResolutionBuffer(out));
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n)};
}

Bytes request(std::optional<std::uint16_t> vlan = {}) {
  return made([&](auto out) { return build_arp_request({kMacA, vlan, kIpv4A}, kIpv4B, out); });
}

Bytes solicitation(std::optional<std::uint16_t> vlan = {}) {
  return made([&](auto out) { return build_solicitation({kMacA, vlan, kIpv6A}, kIpv6B, out); });
}

MacAddress destination_of(const Bytes& frame) { return load_mac(frame.data()); }

TEST(Arp, QuestionAndAnswer) {
  for (const auto vlan : {std::optional<std::uint16_t>{}, std::optional<std::uint16_t>{7}}) {
    const Bytes asked = request(vlan);
    EXPECT_EQ(destination_of(asked), kBroadcastMac);
    const auto question = parse_arp(asked);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->operation, ArpMessage::Operation::kArpRequest);
    EXPECT_EQ(question->sender, kIpv4A);
    EXPECT_EQ(question->sender_mac, kMacA);
    EXPECT_EQ(question->target, kIpv4B);
    EXPECT_EQ(question->vlan, vlan);

    const Bytes answered = made([&](auto out) {
      return build_arp_reply({kMacB, vlan, kIpv4B}, *question, out);
    });
    EXPECT_EQ(destination_of(answered), kMacA);
    const auto answer = parse_arp(answered);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->operation, ArpMessage::Operation::kArpReply);
    EXPECT_EQ(answer->sender, kIpv4B);
    EXPECT_EQ(answer->sender_mac, kMacB);
    EXPECT_EQ(answer->target, kIpv4A);
    EXPECT_EQ(answer->target_mac, kMacA);
    EXPECT_EQ(answer->vlan, vlan);
  }
}

TEST(Arp, RefusesWhatItDoesNotKnow) {
  const Bytes good = request();
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes f = good;
    f.at(at) = std::byte{value};
    return parse_arp(f).has_value();
  };
  ASSERT_TRUE(with(0, 0xff));
  EXPECT_FALSE(with(13, 0x00));  // Ethernet type
  EXPECT_FALSE(with(15, 6));     // hardware
  EXPECT_FALSE(with(16, 0x86));  // protocol
  EXPECT_FALSE(with(18, 8));     // address lengths
  EXPECT_FALSE(with(19, 16));
  EXPECT_FALSE(with(21, 0));  // operation
  EXPECT_FALSE(with(21, 3));
  EXPECT_FALSE(with(22, 0x03));  // a group as the sender
  EXPECT_FALSE(with(28, 0xe0));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(parse_arp(std::span(good).first(n))) << n;
}

TEST(Neighbour, QuestionAndAnswer) {
  for (const auto vlan : {std::optional<std::uint16_t>{}, std::optional<std::uint16_t>{7}}) {
    const Bytes asked = solicitation(vlan);
    EXPECT_EQ(destination_of(asked), (MacAddress{{0x33, 0x33, 0xff, 0xd9, 0x4b, 0x01}}));
    const auto question = parse_neighbour(asked);
    ASSERT_TRUE(question);
    EXPECT_FALSE(question->is_advertisement);
    EXPECT_EQ(question->source, kIpv6A);
    EXPECT_EQ(question->target, kIpv6B);
    EXPECT_EQ(question->link, kMacA);
    EXPECT_EQ(question->vlan, vlan);

    const Bytes answered = made([&](auto out) {
      return build_advertisement({kMacB, vlan, kIpv6B}, *question, out);
    });
    EXPECT_EQ(destination_of(answered), kMacA);
    const auto answer = parse_neighbour(answered);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->is_advertisement);
    EXPECT_TRUE(answer->solicited);
    EXPECT_TRUE(answer->overrides);
    EXPECT_EQ(answer->source, kIpv6B);
    EXPECT_EQ(answer->destination, kIpv6A);
    EXPECT_EQ(answer->target, kIpv6B);
    EXPECT_EQ(answer->link, kMacB);
  }
}

TEST(Neighbour, AnswersOneWithoutAddressToAllNodes) {
  NeighbourMessage question;
  question.source_mac = kMacA;
  question.target = kIpv6B;
  const Bytes answered = made([&](auto out) {
    return build_advertisement({kMacB, {}, kIpv6B}, question, out);
  });
  EXPECT_EQ(destination_of(answered), (MacAddress{{0x33, 0x33, 0, 0, 0, 1}}));
  const auto answer = parse_neighbour(answered);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->destination, kAllNodes);
  EXPECT_FALSE(answer->solicited);
}

/// The checksum computed as RFC 4443 2.3 tells it, word by word.
void mend_checksum(Bytes& frame) {
  frame[56] = frame[57] = std::byte{0};
  const std::size_t length =
      std::to_integer<std::size_t>(frame[18]) << 8 | std::to_integer<std::size_t>(frame[19]);
  std::uint32_t sum = static_cast<std::uint32_t>(length) + 58;
  const auto add = [&](std::size_t from, std::size_t n) {
    for (std::size_t i = from; i + 1 < from + n && i + 1 < frame.size(); i += 2)
      sum += std::to_integer<std::uint32_t>(frame[i]) << 8 |
             std::to_integer<std::uint32_t>(frame[i + 1]);
  };
  add(22, 32);
  add(54, length);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  frame[56] = std::byte(~sum >> 8 & 0xff);
  frame[57] = std::byte(~sum & 0xff);
}

TEST(Neighbour, ChecksumIsTheStandardOne) {
  const Bytes built = solicitation();
  Bytes mended = built;
  mend_checksum(mended);
  EXPECT_EQ(built, mended);
}

TEST(Neighbour, RefusesWhatTheStandardForbids) {
  const Bytes good = solicitation();
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes f = good;
    f.at(at) = std::byte{value};
    mend_checksum(f);
    return parse_neighbour(f).has_value();
  };
  ASSERT_TRUE(with(0, 0x33));
  EXPECT_FALSE(with(6, 0x03));   // from a group link address
  EXPECT_FALSE(with(14, 0x40));  // version
  EXPECT_FALSE(with(19, 23));    // length below the message
  EXPECT_FALSE(with(19, 40));    // length beyond the frame
  EXPECT_FALSE(with(20, 17));    // not ICMPv6
  EXPECT_FALSE(with(21, 254));   // came through a router
  EXPECT_FALSE(with(22, 0xff));  // from a group
  EXPECT_FALSE(with(54, 134));   // other message
  EXPECT_FALSE(with(55, 1));     // code
  EXPECT_FALSE(with(62, 0xff));  // a group as target
  EXPECT_FALSE(with(79, 0));     // option without length
  EXPECT_FALSE(with(79, 2));     // option longer than the message
  EXPECT_FALSE(with(80, 0x01));  // a group as link address
  Bytes damaged = good;
  damaged[70] ^= std::byte{1};
  EXPECT_FALSE(parse_neighbour(damaged));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(parse_neighbour(std::span(good).first(n))) << n;
}

TEST(Neighbour, OneWithoutAddressMayNotGiveALink) {
  Bytes frame = solicitation();
  std::fill_n(frame.begin() + 22, 16, std::byte{0});
  mend_checksum(frame);
  EXPECT_FALSE(parse_neighbour(frame));
  frame[78] = std::byte{14};  // some other option
  mend_checksum(frame);
  EXPECT_TRUE(parse_neighbour(frame));
  store_ipv6(&frame[38], kIpv6B);  // not to the group
  mend_checksum(frame);
  EXPECT_FALSE(parse_neighbour(frame));
}

TEST(Neighbour, SolicitedAdvertisementIsNotForAGroup) {
  NeighbourMessage question;
  question.source = kIpv6A;
  question.source_mac = kMacA;
  Bytes frame = made([&](auto out) {
    return build_advertisement({kMacB, {}, kIpv6B}, question, out);
  });
  ASSERT_TRUE(parse_neighbour(frame));
  store_ipv6(&frame[38], kAllNodes);
  mend_checksum(frame);
  EXPECT_FALSE(parse_neighbour(frame));
}

TEST(Multicast, LinkAddresses) {
  EXPECT_EQ(multicast_mac(Gid::from_ipv4(0xe0010203)),
            (MacAddress{{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}}));
  EXPECT_EQ(multicast_mac(Gid::from_ipv4(0xef818283)),
            (MacAddress{{0x01, 0x00, 0x5e, 0x01, 0x82, 0x83}}));
  EXPECT_EQ(multicast_mac(kAllNodes), (MacAddress{{0x33, 0x33, 0, 0, 0, 1}}));
  EXPECT_EQ(solicited_node_group(kIpv6A),
            (Gid{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xa2, 0x4b, 0}}));
}

}  // namespace
}  // namespace softhca::wire
