// SPDX-License-Identifier: Apache-2.0

// Trains as they are received: each packet is read as if it had come alone.
#include <gtest/gtest.h>

#include "daemon/base/endian.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using test::build;
using test::Bytes;
using test::counting_payload;

constexpr std::uint16_t kFirst = 65534;  // wraps

Headers middle(std::uint32_t psn) {
  Headers h;
  h.opcode = raw(Opcode::kRcWriteMiddle);
  h.destination = Qpn(17);
  h.psn = Psn(psn);
  return h;
}

/// Packets of a path with these payload lengths, and the train that they make.
struct Packets {
  Packets(const FramePath& path, std::initializer_list<std::size_t> payloads) {
    const FrameTemplate prepared(path);
    Bytes datagrams;
    for (const std::size_t payload : payloads) {
      const auto index = static_cast<std::uint32_t>(frames.size());
      frames.push_back(build(path, middle(index), counting_payload(payload),
                             static_cast<std::uint16_t>(kFirst + index)));
      const auto first = frames.back().begin() + static_cast<std::ptrdiff_t>(prepared.length());
      datagrams.insert(datagrams.end(), first, frames.back().end());
      if (segment == 0) segment = datagrams.size();
    }
    train.resize(prepared.length());
    prepared.write(train.data(), datagrams.size(), kFirst);
    train.insert(train.end(), datagrams.begin(), datagrams.end());
  }
  std::vector<Bytes> frames;
  std::size_t segment = 0;
  Bytes train;
};

void expect_apart(const Packets& packets) {
  FrameWalk walk(packets.train, packets.segment);
  ParsedFrame got;
  for (const Bytes& frame : packets.frames) {
    ASSERT_EQ(walk.next(got), DropReason::kNone);
    EXPECT_TRUE(check_icrc(got));
    ParsedFrame wanted;
    ASSERT_EQ(parse_frame(frame, wanted), DropReason::kNone);
    EXPECT_EQ(test::rebuild(got), frame) << "all that it says, ICRC included";
    EXPECT_EQ(frame_length(got), frame.size());
    std::array<std::byte, kGrhLength> grh, wanted_grh;
    grh_bytes(got, grh);
    grh_bytes(wanted, wanted_grh);
    EXPECT_EQ(grh, wanted_grh);
    EXPECT_EQ(walk.has_more(), &frame != &packets.frames.back());
  }
}

TEST(Train, IsReadPacketByPacket) {
  for (const FramePath& path : {test::ipv4_path(), test::ipv6_path()}) {
    expect_apart(Packets(path, {1024, 1024, 1024}));
    expect_apart(Packets(path, {256, 256, 8}));
    expect_apart(Packets(path, {64}));
    FramePath tagged = path;
    tagged.vlan = 7;
    expect_apart(Packets(tagged, {512, 512}));
  }
}

TEST(Train, ABrokenPacketCostsNoOther) {
  Packets packets(test::ipv4_path(), {256, 256, 256});
  packets.train[packets.train.size() - packets.segment - 20] ^= std::byte{1};
  FrameWalk walk(packets.train, packets.segment);
  ParsedFrame got;
  ASSERT_EQ(walk.next(got), DropReason::kNone);
  EXPECT_TRUE(check_icrc(got));
  ASSERT_EQ(walk.next(got), DropReason::kNone);
  EXPECT_FALSE(check_icrc(got));
  ASSERT_EQ(walk.next(got), DropReason::kNone);
  EXPECT_TRUE(check_icrc(got));
  EXPECT_FALSE(walk.has_more());
}

TEST(Train, AnUnreadablePacketCostsNoOther) {
  Packets packets(test::ipv4_path(), {256, 256});
  packets.train[14 + 20 + 8] = std::byte{0x15};  // no opcode
  FrameWalk walk(packets.train, packets.segment);
  ParsedFrame got;
  EXPECT_EQ(walk.next(got), DropReason::kUnknownOpcode);
  ASSERT_TRUE(walk.has_more());
  EXPECT_EQ(walk.next(got), DropReason::kNone);
}

/// A fault that is injected into one packet of a train does not affect the next ones.
TEST(Train, MarkOfAPacket_DoesNotSpread) {
  Packets packets(test::ipv4_path(), {256, 256});
  FrameWalk walk(packets.train, packets.segment);
  ParsedFrame got;
  ASSERT_EQ(walk.next(got), DropReason::kNone);
  got.traffic_class |= kEcnCongested;
  ASSERT_EQ(walk.next(got), DropReason::kNone);
  EXPECT_FALSE(got.is_congested());
}

/// Such a packet is held as a frame of its own, and parsed again.
TEST(Train, PacketWithItsWrittenHeaders_IsAFrame) {
  for (const FramePath& path : {test::ipv4_path(), test::ipv6_path()}) {
    Packets packets(path, {256, 256, 8});
    FrameWalk walk(packets.train, packets.segment);
    ParsedFrame got;
    for (unsigned i = 0; i < 3; ++i) {
      ASSERT_EQ(walk.next(got), DropReason::kNone);
      Bytes frame(kMaxNetworkHeaders);
      const std::size_t link = encode_ethernet(got.ethernet, frame.data());
      frame.resize(link + got.network.size());
      write_network(got, std::span(frame).subspan(link));
      frame.insert(frame.end(), got.datagram.begin(), got.datagram.end());
      ParsedFrame again;
      EXPECT_EQ(parse_frame(frame, again), DropReason::kNone) << i;
      EXPECT_TRUE(check_icrc(again)) << i;
    }
  }
}

TEST(Train, OfTooManyOrTooShortPacketsIsNone) {
  const Packets packets(test::ipv4_path(), {4096, 4096});
  ParsedFrame got;
  const auto reason = [&](std::size_t segment) {
    FrameWalk walk(packets.train, segment);
    const DropReason first = walk.next(got);
    EXPECT_TRUE(first != DropReason::kBadTrain || !walk.has_more());
    return first;
  };
  const std::size_t all = 2 * packets.segment;
  EXPECT_EQ(reason(1), DropReason::kBadTrain);
  EXPECT_EQ(reason(kBthLength + kIcrcLength - 1), DropReason::kBadTrain);
  EXPECT_EQ(reason((all - 1) / kMaxTrainPackets), DropReason::kBadTrain);
  EXPECT_NE(reason((all - 1) / kMaxTrainPackets + 1), DropReason::kBadTrain);
  EXPECT_NE(reason(all), DropReason::kBadTrain) << "one packet";
}

TEST(Train, EndsWithItsFrame) {
  const Packets packets(test::ipv4_path(), {256, 256});
  for (std::size_t length = 0; length < packets.train.size(); ++length) {
    const Bytes cut(packets.train.begin(),
                    packets.train.begin() + static_cast<std::ptrdiff_t>(length));
    FrameWalk walk(cut, packets.segment);
    ParsedFrame got;
    EXPECT_NE(walk.next(got), DropReason::kNone) << "the IP header says how long it is";
    EXPECT_FALSE(walk.has_more());
  }
}

}  // namespace
}  // namespace softhca::wire
