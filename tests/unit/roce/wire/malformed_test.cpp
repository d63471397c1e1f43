// SPDX-License-Identifier: Apache-2.0

// Frames cut short, damaged and made up: never a crash, and damage does not go unnoticed. Each
// frame is parsed in a buffer of exactly its size, so that AddressSanitizer sees any byte read
// beyond it.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/arp_nd.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::wire {
namespace {

using test::Bytes;

enum class Seen { kRefused, kBadIcrc, kAccepted };

/// What the daemon does with a frame; touches everything a later stage would.
Seen receive(const Bytes& frame) {
  (void)parse_arp(frame);
  (void)parse_neighbour(frame);
  ParsedFrame f;
  if (parse_frame(frame, f) != DropReason::kNone) return Seen::kRefused;
  std::array<std::byte, kGrhLength> grh;
  grh_bytes(f, grh);
  unsigned sum = 0;
  for (const std::byte b : f.payload) sum += std::to_integer<unsigned>(b);
  EXPECT_LE(sum, f.payload.size() * 255);
  return check_icrc(f) ? Seen::kAccepted : Seen::kBadIcrc;
}

bool is_ipv4(const Bytes& frame) { return frame[13] == std::byte{0x00}; }

/// Lengths and checksum as they must be for the frame's size, so that damage reaches the layers
/// behind those checks.
void mend_ip(Bytes& frame) {
  const std::size_t ip = 14;
  const std::size_t header = is_ipv4(frame) ? 20 : 40;
  if (frame.size() < ip + header + 8) return;
  const auto rest = static_cast<std::uint16_t>(frame.size() - ip - header);
  store_be(&frame[ip + header + 4], rest);
  if (!is_ipv4(frame)) {
    store_be(&frame[ip + 4], rest);
    return;
  }
  store_be(&frame[ip + 2], static_cast<std::uint16_t>(rest + header));
  frame[ip + 10] = frame[ip + 11] = std::byte{0};
  const auto sum = static_cast<std::uint16_t>(~fold_checksum(add_checksum({&frame[ip], 20}, 0)));
  std::memcpy(&frame[ip + 10], &sum, sizeof sum);
}

TEST(Malformed, NoTruncatedFrameIsAccepted) {
  for (const Bytes& frame : test::all_captured_frames())
    for (std::size_t n = 0; n < frame.size(); ++n)
      ASSERT_EQ(receive(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n))),
                Seen::kRefused)
          << n;
}

TEST(Malformed, NoTruncatedFrameWithMendedLengthsIsAccepted) {
  for (const Bytes& frame : test::all_captured_frames()) {
    ParsedFrame whole;
    if (parse_frame(frame, whole) != DropReason::kNone) continue;
    for (std::size_t n = 14; n < frame.size(); ++n) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n));
      mend_ip(cut);
      ASSERT_NE(receive(cut), Seen::kAccepted) << n;
    }
  }
}

/// Fields that the ICRC leaves out; the low nibble of the first IPv6 byte apart.
bool is_protected(const Bytes& frame, std::size_t at) {
  if (at < 14) return false;
  const std::size_t ip = at - 14;
  const std::size_t udp = is_ipv4(frame) ? 20 : 40;
  if (ip == udp + 6 || ip == udp + 7 || ip == udp + 8 + 4) return false;
  if (is_ipv4(frame)) return ip != 1 && ip != 8 && ip != 10 && ip != 11;
  return ip > 3 && ip != 7;
}

class Damaged : public testing::TestWithParam<const char*> {};

TEST_P(Damaged, EveryByteIsEitherFreeToChangeOrGuarded) {
  const Bytes frame = test::read_capture(GetParam()).at(0);
  ASSERT_EQ(receive(frame), Seen::kAccepted);
  for (std::size_t at = 0; at < frame.size(); ++at)
    for (int flip = 1; flip < 256; ++flip) {
      Bytes damaged = frame;
      damaged[at] ^= std::byte(flip);
      const Seen seen = receive(damaged);
      ASSERT_NE(seen, is_protected(frame, at) ? Seen::kAccepted : Seen::kBadIcrc) << at;
    }
}

TEST_P(Damaged, MendedHeadersDoNotHideIt) {
  const Bytes frame = test::read_capture(GetParam()).at(0);
  for (std::size_t at = 14; at < frame.size(); ++at) {
    Bytes damaged = frame;
    damaged[at] ^= std::byte{0x04};
    mend_ip(damaged);
    if (damaged == frame) continue;  // a field that mending restores
    const Seen seen = receive(damaged);
    ASSERT_EQ(seen != Seen::kAccepted, is_protected(frame, at)) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Capture, Damaged,
                         testing::Values("rc_send_pad1.pcap", "rc_send_ipv6.pcap",
                                         "rc_atomic_cas.pcap", "rc_write_imm_short.pcap",
                                         "ud_send_imm.pcap", "rc_send_zero.pcap"),
                         [](const auto& capture) {
                           const std::string file = capture.param;
                           return file.substr(0, file.find('.'));
                         });

TEST(Malformed, RandomTransportBytesAreNotAccepted) {
  std::mt19937 random(42);
  const Bytes ipv4 = test::read_capture("rc_send.pcap").at(0);
  const Bytes ipv6 = test::read_capture("rc_send_ipv6.pcap").at(0);
  for (int round = 0; round < 20000; ++round) {
    Bytes frame = round % 2 ? ipv4 : ipv6;
    const std::size_t start = 14 + (is_ipv4(frame) ? 20 : 40) + 8;
    frame.resize(start + random() % 200);
    for (std::size_t i = start; i < frame.size(); ++i) frame[i] = std::byte(random());
    mend_ip(frame);
    ASSERT_NE(receive(frame), Seen::kAccepted) << round;
  }
}

TEST(Malformed, RandomFramesAreNotAccepted) {
  std::mt19937 random(43);
  constexpr std::uint16_t kTypes[] = {kEtherTypeIpv4, kEtherTypeIpv6, kEtherTypeArp,
                                      kEtherTypeVlan};
  for (int round = 0; round < 50000; ++round) {
    Bytes frame(random() % 200);
    for (std::byte& b : frame) b = std::byte(random());
    if (frame.size() >= 14) store_be(&frame[12], kTypes[random() % 4]);
    ASSERT_NE(receive(frame), Seen::kAccepted) << round;
  }
}

}  // namespace
}  // namespace softhca::wire
