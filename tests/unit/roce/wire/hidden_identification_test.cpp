// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/hidden_identification.hpp"

#include <gtest/gtest.h>

#include "daemon/base/endian.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using Soundness = HiddenIdentifications::Soundness;
using test::build;
using test::Bytes;
using test::counting_payload;

constexpr std::size_t kIp = 14;

Headers headers() {
  Headers h;
  h.opcode = raw(Opcode::kRcWriteMiddle);
  h.destination = Qpn(17);
  return h;
}

/// As a UDP socket shows it: the identification is 0.
Bytes hide(Bytes frame) {
  store_be(&frame[kIp + 4], std::uint16_t{0});
  store_be(&frame[kIp + 10], std::uint16_t{0});
  const std::uint16_t sum = static_cast<std::uint16_t>(
      ~fold_checksum(add_checksum(std::span(frame).subspan(kIp, 20), 0)));
  std::memcpy(&frame[kIp + 10], &sum, sizeof sum);
  return frame;
}

class Hidden : public testing::Test {
 protected:
  Soundness check(const Bytes& frame) {
    ParsedFrame parsed;
    EXPECT_EQ(parse_frame(frame, parsed), DropReason::kNone);
    return hidden.check(parsed);
  }
  Soundness sent_with(std::uint16_t identification, std::size_t payload = 64,
                      const FramePath& path = test::ipv4_path()) {
    return check(hide(build(path, headers(), counting_payload(payload), identification)));
  }
  HiddenIdentifications hidden;
};

TEST_F(Hidden, OfTrainsOfUdpSocketsAreExpected) {
  for (const std::size_t payload : {0u, 4u, 64u, 1024u, 4096u})
    for (std::uint16_t i = 0; i < 64; ++i)
      EXPECT_EQ(sent_with(i, payload), Soundness::kSound) << i << " with " << payload;
}

TEST_F(Hidden, AreFoundWhateverTheyAre) {
  for (unsigned id = 0; id < 65536; ++id)
    ASSERT_NE(sent_with(static_cast<std::uint16_t>(id)), Soundness::kBroken) << id;
  for (std::size_t payload = 0; payload <= 4096; payload += 4)
    ASSERT_NE(sent_with(0xbeef, payload), Soundness::kBroken) << payload;
}

TEST_F(Hidden, OfWhoeverCountsAreExpected) {
  EXPECT_EQ(sent_with(30000), Soundness::kUnexpected);
  EXPECT_EQ(sent_with(30001), Soundness::kSound);
  EXPECT_EQ(sent_with(30001 + 64), Soundness::kSound) << "packets to others between";
  EXPECT_EQ(sent_with(30065 + 65), Soundness::kUnexpected);
  EXPECT_EQ(sent_with(30129), Soundness::kUnexpected) << "backwards";
  EXPECT_EQ(sent_with(30130), Soundness::kSound);
  FramePath other = test::ipv4_path();
  other.source = Gid::from_ipv4(test::ipv4_path().source.ipv4() ^ 1);
  EXPECT_EQ(sent_with(30131, 64, other), Soundness::kUnexpected) << "of another sender";
  EXPECT_EQ(sent_with(30131), Soundness::kSound) << "each is remembered";
  EXPECT_EQ(sent_with(65535), Soundness::kUnexpected);
  EXPECT_EQ(sent_with(0), Soundness::kSound);
}

/// One packet of 65,536 that are damaged passes; these are the same in each run.
TEST_F(Hidden, DoNotHideDamage) {
  const Bytes frame = hide(build(test::ipv4_path(), headers(), counting_payload(1024), 4711));
  EXPECT_EQ(check(frame), Soundness::kUnexpected);
  std::size_t passed = 0, tried = 0;
  for (std::size_t at = kIp + 20 + 8 + 12; at < frame.size(); ++at)
    for (int bit = 0; bit < 8; ++bit, ++tried) {
      Bytes damaged = frame;
      damaged[at] ^= std::byte(1 << bit);
      if (check(damaged) != Soundness::kBroken) ++passed;
    }
  EXPECT_GT(tried, 8000u);
  EXPECT_LE(passed, 2u);
  Bytes readdressed = frame;
  readdressed[kIp + 15] ^= std::byte{1};
  EXPECT_EQ(check(hide(readdressed)), Soundness::kBroken);
}

TEST_F(Hidden, AreNoneOverIpv6) {
  Bytes frame = build(test::ipv6_path(), headers(), counting_payload(256), 0);
  EXPECT_EQ(check(frame), Soundness::kSound);
  frame[kIp + 40 + 8 + 20] ^= std::byte{1};
  EXPECT_EQ(check(frame), Soundness::kBroken);
}

TEST_F(Hidden, OfATrainMergedFromOthersAreFound) {
  // The kernel may join what came packet by packet: each is the first of its train.
  const Bytes one = build(test::ipv4_path(), headers(), counting_payload(256), 0);
  const FrameTemplate prepared(test::ipv4_path());
  const std::size_t segment = one.size() - prepared.length();
  Bytes train(prepared.length());
  prepared.write(train.data(), 3 * segment, 0);
  for (int i = 0; i < 3; ++i)
    train.insert(train.end(), one.begin() + static_cast<std::ptrdiff_t>(prepared.length()),
                 one.end());
  FrameWalk walk(train, segment);
  ParsedFrame parsed;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(walk.next(parsed), DropReason::kNone);
    EXPECT_EQ(hidden.check(parsed), Soundness::kSound) << i;
  }
}

}  // namespace
}  // namespace softhca::wire
