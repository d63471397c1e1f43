// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/packet/packet_port.hpp"

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "daemon/port/packet/socket.hpp"

namespace softhca::port {

Expected<std::unique_ptr<Port>> PacketPort::open(const PacketPortOptions& options, UniqueFd kept) {
  auto interface = read_interface(options.interface);
  if (!interface) return interface.error();
  if (interface->mac.is_zero())
    return Error{"interface " + options.interface + " is not an Ethernet interface", EINVAL};
  const bool fits = kept && is_bound_to_interface(kept.get(), interface->index);
  auto fd = fits ? std::move(kept) : open_packet_socket(interface->index);
  if (!fd)
    return Error{"interface " + options.interface + ": " + fd.error().message, fd.error().code};
  return std::unique_ptr<Port>(
      new PacketPort({.fd = std::move(*fd),
                      .interface = options.interface,
                      .mac = interface->mac,
                      .mtu = carried_mtu(options.mtu != 0 ? options.mtu : interface->mtu)},
                     interface->index));
}

PacketPort::PacketPort(SocketPlace place, int index)
    : SocketPort(
          std::move(place), [] { return ReceiveBuffers(); },
          [](int fd) { return TransmitQueue(fd); }),
      index_(index) {}

bool PacketPort::link_up() const {
  return is_bound_to_interface(fd(), index_) && SocketPort::link_up();
}

PortCounters PacketPort::counters() const {
  PortCounters all = SocketPort::counters();
  const std::lock_guard lock(counting_);
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (getsockopt(fd(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
    missed_ += stats.tp_drops;
  all.rx_missed += missed_;
  return all;
}

}  // namespace softhca::port
