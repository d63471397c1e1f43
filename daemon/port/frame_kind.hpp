// Where the transport headers of a frame are, as far as test wrappers of a port need to know.
#pragma once

#include <cstddef>
#include <span>

namespace softhca::port {

/// Offset of the base transport header in an Ethernet frame with a UDP datagram to port 4791 over
/// IPv4 or IPv6, with or without a VLAN tag; 0 for any other frame.
std::size_t roce_offset(std::span<const std::byte> frame);

/// Offset of the IP header in an Ethernet frame, with or without a VLAN tag; 0 for any other frame.
std::size_t network_offset(std::span<const std::byte> frame);

/// Marks an ECN-capable packet over IPv4 or IPv6 as having met congestion (RFC 3168). False: it is
/// no such packet, or is marked already.
bool mark_congested(std::span<std::byte> frame);

}  // namespace softhca::port
