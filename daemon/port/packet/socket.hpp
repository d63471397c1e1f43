// SPDX-License-Identifier: Apache-2.0

// Packet sockets on kernel interfaces.
#pragma once

#include <cstdint>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::port {

/// The header before each frame of the socket, in both directions: virtio_net_hdr (virtio 1.3,
/// 5.1.6). The kernel's header for it is not C++. Byte order of the machine.
struct Offload {
  std::uint8_t flags = 0;
  std::uint8_t gso_type = 0;
  std::uint16_t header_length = 0;
  std::uint16_t gso_size = 0;  ///< payload of each datagram
  std::uint16_t checksum_start = 0;
  std::uint16_t checksum_offset = 0;  ///< from checksum_start

  static constexpr std::uint8_t kNeedsChecksum = 1;
  /// UDP segmentation, since Linux 6.2.
  static constexpr std::uint8_t kGsoUdp = 5;
  /// May be combined with any type.
  static constexpr std::uint8_t kGsoEcn = 0x80;
};
static_assert(sizeof(Offload) == 10);

/// Opens the packet socket of a port. It receives frames of UDP port 4791, ARP and ICMPv6, each
/// with a virtio_net_hdr before it and its VLAN tag beside it. It does not receive frames that it
/// sends. Error: no CAP_NET_RAW, no such interface, or the kernel lacks a feature.
Expected<UniqueFd> open_packet_socket(int interface_index);

/// Makes the socket receive frames of the interface, and the interface receive all multicast
/// frames. Neighbour solicitations for addresses that the kernel does not own arrive by multicast.
bool bind_to_interface(int fd, int interface_index);
/// True if the socket receives frames of the interface.
bool is_bound_to_interface(int fd, int interface_index);

}  // namespace softhca::port
