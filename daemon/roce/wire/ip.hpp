// SPDX-License-Identifier: Apache-2.0

// Layout of the headers below the transport, for the codecs of frames and of address resolution.
// Offsets are in bytes from the start of the named header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/base/net.hpp"

namespace softhca::wire {

inline constexpr std::size_t kEthernetLength = 14;
inline constexpr std::size_t kVlanTagLength = 4;
inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeArp = 0x0806;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;

inline constexpr std::size_t kIpv4Length = 20;
inline constexpr std::uint16_t kDontFragment = 0x4000;
inline constexpr std::size_t kIpv6Length = 40;
inline constexpr std::size_t kUdpLength = 8;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::uint8_t kProtocolIcmpv6 = 58;
inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::size_t kIcrcLength = 4;

inline MacAddress load_mac(const std::byte* from) {
  MacAddress m;
  std::memcpy(m.bytes.data(), from, m.bytes.size());
  return m;
}

inline void store_mac(std::byte* to, const MacAddress& m) {
  std::memcpy(to, m.bytes.data(), m.bytes.size());
}

/// Returns an IPv4 address in a packet as a GID.
inline Gid load_ipv4(const std::byte* from) {
  Gid g;
  g.bytes[10] = g.bytes[11] = 0xff;
  std::memcpy(&g.bytes[12], from, 4);
  return g;
}

inline void store_ipv4(std::byte* to, const Gid& g) { std::memcpy(to, &g.bytes[12], 4); }

inline Gid load_ipv6(const std::byte* from) {
  Gid g;
  std::memcpy(g.bytes.data(), from, g.bytes.size());
  return g;
}

inline void store_ipv6(std::byte* to, const Gid& g) {
  std::memcpy(to, g.bytes.data(), g.bytes.size());
}

/// Adds `bytes` to `sum`, a running Internet checksum (one's complement sum of 16-bit words);
/// fold_checksum() ends it. The sum is in the byte order of the machine, which permits steps of 32
/// bits (RFC 1071, 2).
inline std::uint64_t add_checksum(std::span<const std::byte> bytes, std::uint64_t sum) {
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word;
    std::memcpy(&word, &bytes[i], sizeof word);
    sum += word;
  }
  if (i < bytes.size()) {
    std::uint32_t word = 0;
    std::memcpy(&word, &bytes[i], bytes.size() - i);
    sum += word;
  }
  return sum;
}

/// Returns the running checksum of an IPv4 header without options.
inline std::uint64_t ipv4_checksum(const std::byte* ip) {
  std::uint64_t sum = 0;
  const auto add = [&](std::size_t at) {
    std::uint32_t word;
    std::memcpy(&word, ip + at, sizeof word);
    sum += word;
  };
  add(0), add(4), add(8), add(12), add(16);
  return sum;
}

/// Returns the sum in 16 bits, not complemented, to be copied into a packet unchanged. It is 0xffff
/// over data that includes its own checksum.
inline std::uint16_t fold_checksum(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace softhca::wire
