// The invariant CRC of RoCE v2: a CRC-32 over eight bytes of ones (standing for the routing header
// of an InfiniBand packet) and the packet from its IP header to the end of the pad, where fields
// that change on the way count as ones (InfiniBand specification, annex A17.3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca::wire {

/// `packet` runs from the IP header to the end of the pad. The result is appended to it little
/// endian.
/// REQUIRES: the packet holds at least an IP header without options (of the version in its first
/// byte, 4 or 6), a UDP header and a base transport header.
std::uint32_t icrc(std::span<const std::byte> packet);

/// The same for a packet in parts: `network` is its IP and UDP header, `transport` what follows, at
/// least the base transport header.
std::uint32_t icrc(std::span<const std::byte> network, std::span<const std::byte> transport);

/// The same for a packet whose payload lies in several places: its bytes are added in their order.
class IcrcSum {
 public:
  IcrcSum(std::span<const std::byte> network, std::span<const std::byte> transport);
  void add(std::span<const std::byte> bytes);
  /// To be called once, at the end.
  std::uint32_t finish();

 private:
  std::uint32_t state_;
};

}  // namespace softhca::wire
