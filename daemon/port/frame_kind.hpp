// SPDX-License-Identifier: Apache-2.0

// Finds the network and transport headers of a frame, and sets its congestion mark.
#pragma once

#include <cstddef>
#include <span>

namespace softhca::port {

/// Returns the offset of the base transport header in an Ethernet frame with a UDP datagram to port
/// 4791 over IPv4 or IPv6, with or without a VLAN tag; 0 for any other frame.
std::size_t roce_offset(std::span<const std::byte> frame);

/// Returns the offset of the IP header in an Ethernet frame, with or without a VLAN tag; 0 for any
/// other frame.
std::size_t network_offset(std::span<const std::byte> frame);

/// True for a packet over IPv4 or IPv6 that may be marked (RFC 3168), or is.
bool is_ecn_capable(std::span<const std::byte> frame);

/// Sets the congestion mark of an ECN-capable packet over IPv4 or IPv6 (RFC 3168). False: the
/// packet is not ECN-capable, or is marked already.
bool mark_congested(std::span<std::byte> frame);

}  // namespace softhca::port
