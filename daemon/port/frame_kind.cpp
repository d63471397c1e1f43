// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/frame_kind.hpp"

#include <cstdint>

#include "daemon/base/endian.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

constexpr std::uint16_t kEtherTypeVlan = 0x8100;
constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;

/// The EtherType, and the offset of the network header; 0 if the frame is too short for one.
struct Network {
  std::uint16_t type = 0;
  std::size_t at = 0;
};

Network network_of(std::span<const std::byte> frame) {
  std::size_t at = 12;
  if (frame.size() < at + 2) return {};
  auto type = load_be<std::uint16_t>(&frame[at]);
  if (type == kEtherTypeVlan) {
    at += 4;
    if (frame.size() < at + 2) return {};
    type = load_be<std::uint16_t>(&frame[at]);
  }
  at += 2;
  if (type == kEtherTypeIpv4 && frame.size() >= at + 20) return {type, at};
  if (type == kEtherTypeIpv6 && frame.size() >= at + 40) return {type, at};
  return {};
}

constexpr unsigned kCongested = 3;  ///< the ECN bits of the traffic class

/// Returns where these bits, the last two of the traffic class, are in the first word.
unsigned shift_of(std::uint16_t type) { return type == kEtherTypeIpv4 ? 0 : 4; }

/// Returns the offset of the UDP header, or 0 if the frame has none.
std::size_t udp_offset(std::span<const std::byte> frame) {
  const auto [type, at] = network_of(frame);
  if (type == kEtherTypeIpv4 && frame[at + 9] == std::byte{kProtocolUdp})
    return at + std::to_integer<std::size_t>(frame[at] & std::byte{15}) * 4;
  if (type == kEtherTypeIpv6 && frame[at + 6] == std::byte{kProtocolUdp}) return at + 40;
  return 0;
}

}  // namespace

std::size_t roce_offset(std::span<const std::byte> frame) {
  const std::size_t udp = udp_offset(frame);
  if (udp == 0 || frame.size() < udp + kUdpHeader) return 0;
  return load_be<std::uint16_t>(&frame[udp + 2]) == kRocePort ? udp + kUdpHeader : 0;
}

std::size_t network_offset(std::span<const std::byte> frame) { return network_of(frame).at; }

bool is_ecn_capable(std::span<const std::byte> frame) {
  const auto [type, at] = network_of(frame);
  return at != 0 && (load_be<std::uint16_t>(&frame[at]) >> shift_of(type) & kCongested) != 0;
}

bool mark_congested(std::span<std::byte> frame) {
  const auto [type, at] = network_of(frame);
  if (at == 0) return false;
  const unsigned shift = shift_of(type);
  const auto before = load_be<std::uint16_t>(&frame[at]);
  const unsigned bits = before >> shift & kCongested;
  if (bits == 0 || bits == kCongested) return false;
  const auto after = static_cast<std::uint16_t>(before | kCongested << shift);
  store_be(&frame[at], after);
  if (type == kEtherTypeIpv6) return true;
  // Updates the checksum for the changed word (RFC 1624, equation 3).
  std::uint32_t sum = static_cast<std::uint16_t>(~load_be<std::uint16_t>(&frame[at + 10]));
  sum += static_cast<std::uint16_t>(~before) + std::uint32_t{after};
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be(&frame[at + 10], static_cast<std::uint16_t>(~sum));
  return true;
}

}  // namespace softhca::port
