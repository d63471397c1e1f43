// SPDX-License-Identifier: Apache-2.0

// The invariant CRC of RoCE v2 (InfiniBand specification, annex A17.3.3). It is a CRC-32 over eight
// bytes of ones, in place of the routing header of an InfiniBand packet, and over the packet from
// its IP header to the end of the pad. Fields that change on the way count as ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca::wire {

/// Returns the ICRC of `packet`, which runs from the IP header to the end of the pad. The sender
/// appends it in little-endian order. REQUIRES: `packet` has at least an IP header without options
/// (of the version in its first byte, 4 or 6), a UDP header and a base transport header.
std::uint32_t icrc(std::span<const std::byte> packet);

/// As above, for a packet in two parts: `network` is its IP and UDP header; `transport` is the
/// rest, at least the base transport header.
std::uint32_t icrc(std::span<const std::byte> network, std::span<const std::byte> transport);

/// As above, for a packet with its payload in several pieces, which are added in their order.
class IcrcSum {
 public:
  IcrcSum(std::span<const std::byte> network, std::span<const std::byte> transport);
  void add(std::span<const std::byte> bytes);
  /// Returns the ICRC. REQUIRES: called once, at the end.
  std::uint32_t finish();

 private:
  std::uint32_t state_;
};

}  // namespace softhca::wire
