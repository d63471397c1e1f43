// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/frame_kind.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/port/frames.hpp"

namespace softhca::port {
namespace {

using Bytes = std::vector<std::byte>;

/// An IPv4 header behind an Ethernet header, with its checksum.
Bytes ipv4_frame(std::uint8_t traffic_class, bool tagged) {
  Bytes frame(tagged ? 38 : 34);
  if (tagged) store_be(&frame[12], std::uint16_t{0x8100});
  const std::size_t ip = frame.size() - 20;
  store_be(&frame[ip - 2], std::uint16_t{0x0800});
  frame[ip] = std::byte{0x45};
  frame[ip + 1] = std::byte{traffic_class};
  frame[ip + 9] = std::byte{17};
  store_be(&frame[ip + 12], 0x0a0000ffu);
  return frame;
}
std::uint16_t sum_of(const Bytes& frame) {
  std::uint32_t sum = 0;
  for (std::size_t at = frame.size() - 20; at < frame.size(); at += 2)
    sum += load_be<std::uint16_t>(&frame[at]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

TEST(MarkCongested, MarksWhatIsCapableAndKeepsTheChecksumTrue) {
  for (const bool tagged : {false, true})
    for (unsigned tc = 0; tc < 256; ++tc) {
      Bytes frame = ipv4_frame(static_cast<std::uint8_t>(tc), tagged);
      store_be(&frame[frame.size() - 10], static_cast<std::uint16_t>(~sum_of(frame)));
      ASSERT_EQ(sum_of(frame), 0xffff);
      const bool capable = (tc & 3) == 1 || (tc & 3) == 2;
      EXPECT_EQ(mark_congested(frame), capable);
      EXPECT_EQ(std::to_integer<unsigned>(frame[frame.size() - 19]), capable ? tc | 3 : tc);
      EXPECT_EQ(sum_of(frame), 0xffff) << tc;
    }
}

TEST(MarkCongested, Ipv6AndOthers) {
  Bytes frame(54);
  store_be(&frame[12], std::uint16_t{0x86dd});
  store_be(&frame[14], std::uint32_t{6} << 28 | 0x0a2 << 20 | 0xbeef);
  EXPECT_FALSE(mark_congested(std::span(frame).first(53))) << "too short for its header";
  EXPECT_TRUE(mark_congested(frame));
  EXPECT_EQ(load_be<std::uint32_t>(&frame[14]), std::uint32_t{6} << 28 | 0x0a3 << 20 | 0xbeef);
  EXPECT_FALSE(mark_congested(frame)) << "it is marked";
  Bytes arp(60);
  store_be(&arp[12], std::uint16_t{0x0806});
  EXPECT_FALSE(mark_congested(arp));
  EXPECT_FALSE(mark_congested(std::span<std::byte>()));
}

TEST(RoceOffset, FindsTheTransportHeaders) {
  Bytes frame = udp_frame(1);
  EXPECT_EQ(roce_offset(frame), kTestRoceOffset);
  Bytes tagged = frame;
  const Bytes tag = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{5}};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(roce_offset(tagged), kTestRoceOffset + 4);
  Bytes v6(14 + 40 + 8 + 12);
  v6[12] = std::byte{0x86};
  v6[13] = std::byte{0xdd};
  v6[14 + 6] = std::byte{17};
  store_be<std::uint16_t>(&v6[14 + 40 + 2], 4791);
  EXPECT_EQ(roce_offset(v6), 14u + 40 + 8);
}

TEST(RoceOffset, SurvivesEveryTruncationAndAnyHeaderLength) {
  const Bytes frame = udp_frame(1);
  for (std::size_t n = 0; n < frame.size(); ++n)
    EXPECT_LE(roce_offset(std::span(frame).first(n)), n);
  Bytes options = frame;
  options[14] = std::byte{0x4f};
  for (std::size_t n = 0; n < options.size(); ++n)
    EXPECT_LE(roce_offset(std::span(options).first(n)), n);
}

}  // namespace
}  // namespace softhca::port
