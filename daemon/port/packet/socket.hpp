// Packet sockets on kernel interfaces.
#pragma once

#include <cstdint>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::port {

/// What stands before a frame of the socket, in either direction: virtio_net_hdr
/// (virtio 1.3, 5.1.6), whose header in the kernel is not C++. In the byte order of the machine.
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
  /// May be added to any type.
  static constexpr std::uint8_t kGsoEcn = 0x80;
};
static_assert(sizeof(Offload) == 10);

/// The packet socket of a port: it gets what a RoCE port cares for (UDP port 4791, ARP, ICMPv6),
/// each frame with a virtio_net_hdr before it and its VLAN tag beside it, and does not see what it
/// sends itself. Error: no CAP_NET_RAW, no such interface, or the kernel lacks something.
Expected<UniqueFd> open_packet_socket(int interface_index);

/// From now on the socket gets frames of the interface, and the interface takes all multicast
/// frames: neighbour solicitations for addresses the kernel does not own come that way.
bool bind_to_interface(int fd, int interface_index);

}  // namespace softhca::port
