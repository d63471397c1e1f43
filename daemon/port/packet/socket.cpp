// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/packet/socket.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cstdint>

#include "daemon/base/system_error.hpp"
#include "daemon/port/roce_filter.hpp"
#include "daemon/port/socket_room.hpp"

namespace softhca::port {
namespace {

bool turn_on(int fd, int option) {
  const int on = 1;
  return setsockopt(fd, SOL_PACKET, option, &on, sizeof on) == 0;
}

}  // namespace

bool bind_to_interface(int fd, int interface_index) {
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ALL);
  where.sll_ifindex = interface_index;
  if (bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) < 0) return false;
  packet_mreq all{};
  all.mr_ifindex = interface_index;
  all.mr_type = PACKET_MR_ALLMULTI;
  return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0;
}

bool is_bound_to_interface(int fd, int interface_index) {
  sockaddr_ll where{};
  socklen_t length = sizeof where;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&where), &length) == 0 &&
         where.sll_family == AF_PACKET && where.sll_ifindex == interface_index;
}

Expected<UniqueFd> open_packet_socket(int interface_index) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("packet socket (needs CAP_NET_RAW)");
  // The filter is attached before the socket is bound, so that the socket gets no other frames.
  if (!attach(fd.get(), roce_filter(UINT32_MAX)) || !turn_on(fd.get(), PACKET_VNET_HDR) ||
      !turn_on(fd.get(), PACKET_AUXDATA) || !turn_on(fd.get(), PACKET_IGNORE_OUTGOING))
    return system_error("packet socket");
  set_socket_buffers(fd.get(), kReceiveBytes, kSendBytes);
  if (!bind_to_interface(fd.get(), interface_index)) return system_error("packet socket");
  return fd;
}

}  // namespace softhca::port
