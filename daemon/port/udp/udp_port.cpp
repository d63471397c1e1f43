// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/udp/udp_port.hpp"

#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

/// Send buffer of a socket that sends nothing.
constexpr int kLeastBytes = 1;

Expected<UniqueFd> open_receiver(const Gid& address, unsigned interface_index, UniqueFd kept) {
  if (kept && is_bound(kept.get(), address, kRocePort, interface_index)) return kept;
  UniqueFd fd(socket(family_of(address), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || !DatagramBuffers::set_up(fd.get(), address.is_ipv4()))
    return system_error("UDP socket");
  set_socket_buffers(fd.get(), kReceiveBytes, kLeastBytes);
  if (auto bound = bind_udp(fd.get(), address, kRocePort, interface_index); !bound)
    return bound.error();
  return fd;
}

}  // namespace

Expected<std::unique_ptr<Port>> UdpPort::open(const UdpPortOptions& options, UniqueFd kept) {
  auto name = interface_with(options.address);
  if (!name) return name.error();
  const auto interface = read_interface(*name);
  if (!interface) return interface.error();
  const auto index = static_cast<unsigned>(interface->index);
  auto receiver = open_receiver(options.address, index, std::move(kept));
  if (!receiver) return receiver.error();
  auto senders = DatagramQueue::open(options.address, index);
  if (!senders) return senders.error();
  return std::unique_ptr<Port>(
      new UdpPort({.fd = std::move(*receiver),
                   .interface = std::move(*name),
                   .mac = interface->mac,
                   .mtu = carried_mtu(options.mtu != 0 ? options.mtu : interface->mtu)},
                  options.address, std::move(*senders), index));
}

UdpPort::UdpPort(SocketPlace place, const Gid& address, DatagramQueue::Sockets senders,
                 unsigned interface_index)
    : SocketPort(
          std::move(place), [&] { return DatagramBuffers(address); },
          [&](int) { return DatagramQueue(std::move(senders), interface_index); }) {}

PortCounters UdpPort::counters() const {
  PortCounters all = SocketPort::counters();
  all.unreachable = out().counters().unreachable.value();
  all.path_too_narrow = out().counters().path_too_narrow.value();
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  if (getsockopt(fd(), SOL_SOCKET, SO_MEMINFO, memory.data(), &size) == 0)
    all.rx_missed += memory[SK_MEMINFO_DROPS];
  return all;
}

}  // namespace softhca::port
