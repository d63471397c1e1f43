// SPDX-License-Identifier: Apache-2.0

// Network addresses.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>

namespace softhca {

struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};
  constexpr auto operator<=>(const MacAddress&) const = default;
  constexpr bool is_zero() const { return *this == MacAddress{}; }
};

/// A GID of RoCE v2 is an IP address: IPv6 as itself, IPv4 as ::ffff:a.b.c.d (InfiniBand
/// specification annex A17). Network byte order.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  constexpr auto operator<=>(const Gid&) const = default;
  /// Compares words: the operator of std::array calls memcmp(), for each local message.
  constexpr bool operator==(const Gid& other) const {
    using Halves = std::array<std::uint64_t, 2>;
    const auto a = std::bit_cast<Halves>(bytes), b = std::bit_cast<Halves>(other.bytes);
    return a[0] == b[0] && a[1] == b[1];
  }
  constexpr bool is_zero() const { return *this == Gid{}; }
  /// Compares words, since it is asked several times for each packet.
  constexpr bool is_ipv4() const {
    constexpr std::array<std::uint8_t, 4> kMapped{0, 0, 0xff, 0xff};
    const auto words = std::bit_cast<std::array<std::uint32_t, 4>>(bytes);
    return (words[0] | words[1]) == 0 && words[2] == std::bit_cast<std::uint32_t>(kMapped);
  }
  constexpr bool is_link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }
  constexpr bool is_multicast() const {
    return is_ipv4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  }
  /// True if a host can have this address. The unspecified address, groups and the broadcast
  /// address belong to no host (RFC 1122 3.2.1.3, RFC 4291 2.5.2 and 2.7).
  constexpr bool is_unicast() const {
    if (is_ipv4()) return !is_multicast() && ipv4() != 0 && ipv4() != 0xffffffff;
    return !is_multicast() && !is_zero();
  }
  /// Returns the IPv4 address in host byte order. REQUIRES: is_ipv4().
  constexpr std::uint32_t ipv4() const {
    return std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 |
           std::uint32_t{bytes[14]} << 8 | bytes[15];
  }
  static constexpr Gid from_ipv4(std::uint32_t host_order) {
    Gid g;
    g.bytes[10] = g.bytes[11] = 0xff;
    for (int i = 0; i < 4; ++i)
      g.bytes[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
    return g;
  }
};

/// Returns how many leading bits the two have in common, 0 to 128.
constexpr unsigned bits_in_common(const Gid& a, const Gid& b) {
  for (unsigned i = 0; i < a.bytes.size(); ++i) {
    const auto differ = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
    if (differ != 0) return i * 8 + static_cast<unsigned>(std::countl_zero(differ));
  }
  return 128;
}

/// The addresses that begin with the first `length` bits of `address`: IPv4 or IPv6, not both.
struct AddressPrefix {
  Gid address;
  std::uint8_t length = 0;  ///< bits: 0 to 32 of IPv4, 0 to 128 of IPv6

  constexpr bool operator==(const AddressPrefix&) const = default;
  constexpr bool contains(const Gid& other) const {
    return address.is_ipv4() == other.is_ipv4() &&
           bits_in_common(address, other) >= length + (address.is_ipv4() ? 96u : 0u);
  }
};

}  // namespace softhca
