// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/udp/datagram_buffers.hpp"

#include <netinet/udp.h>

#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/base/kernel_address.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kEtherType = 12;
constexpr std::uint16_t kDontFragment = 0x4000;

/// What the kernel reports beside a datagram.
struct Beside {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t segment = 0;
};

Beside read_beside(const msghdr& header) {
  Beside out;
  for (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), const_cast<cmsghdr*>(c))) {
    // The kernel reports the IPv4 type of service in one byte, and all others as int.
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      out.traffic_class = *CMSG_DATA(c);
      continue;
    }
    int value = 0;
    std::memcpy(&value, CMSG_DATA(c), sizeof value);
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
      out.segment = static_cast<std::uint32_t>(value);
    else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
      out.traffic_class = static_cast<std::uint8_t>(value);
    else
      out.hop_limit = static_cast<std::uint8_t>(value);
  }
  return out;
}

bool turn_on(int fd, int level, int option) {
  const int on = 1;
  return setsockopt(fd, level, option, &on, sizeof on) == 0;
}

}  // namespace

bool DatagramBuffers::set_up(int fd, bool is_ipv4) {
  (void)turn_on(fd, IPPROTO_UDP, UDP_GRO);  // without it, packets come one by one
  if (is_ipv4) return turn_on(fd, IPPROTO_IP, IP_RECVTOS) && turn_on(fd, IPPROTO_IP, IP_RECVTTL);
  // RoCE packets may have no checksum over IPv6, too (annex A17.3.2).
  return turn_on(fd, IPPROTO_IPV6, IPV6_RECVTCLASS) &&
         turn_on(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT) && turn_on(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX);
}

DatagramBuffers::DatagramBuffers(const Gid& address)
    : is_ipv4_(address.is_ipv4()),
      head_length_(kNetwork + (is_ipv4_ ? kIpv4Header : kIpv6Header) + kUdpHeader) {
  std::byte* ip = &head_[kNetwork];
  std::byte* udp = &head_[head_length_ - kUdpHeader];
  if (is_ipv4_) {
    store_be(&head_[kEtherType], std::uint16_t{0x0800});
    ip[0] = std::byte{0x45};
    store_be(ip + 6, kDontFragment);
    ip[9] = std::byte{kProtocolUdp};
    store_be(ip + 16, address.ipv4());
  } else {
    store_be(&head_[kEtherType], std::uint16_t{0x86dd});
    ip[6] = std::byte{kProtocolUdp};
    std::memcpy(ip + 24, address.bytes.data(), address.bytes.size());
  }
  store_be(udp + 2, kRocePort);
}

void DatagramBuffers::offer(msghdr& to, Buffer& buffer) {
  buffer.parts[0] = {buffer.data, kLongest};
  to.msg_iov = buffer.parts.data();
  to.msg_iovlen = 1;
  to.msg_name = buffer.apart.data();
  to.msg_namelen = sizeof buffer.apart;
}

Frame DatagramBuffers::accept(const mmsghdr& message, Buffer& buffer) {
  static_assert(sizeof head_ <= kHeadroom);
  static_assert(3 * CMSG_SPACE(sizeof(int)) <= sizeof buffer.beside);
  const auto& from = *static_cast<const sockaddr*>(message.msg_hdr.msg_name);
  const Gid source = gid_of(from);
  const Beside beside = read_beside(message.msg_hdr);
  const std::size_t bytes = message.msg_len;

  std::byte* head = buffer.data - head_length_;
  std::memcpy(head, head_.data(), head_length_);
  std::byte* ip = head + kNetwork;
  if (is_ipv4_) {
    ip[1] = std::byte{beside.traffic_class};
    ip[8] = std::byte{beside.hop_limit};
    store_be(ip + 12, source.ipv4());
  } else {
    store_be(ip, std::uint32_t{6} << 28 | std::uint32_t{beside.traffic_class} << 20);
    ip[7] = std::byte{beside.hop_limit};
    std::memcpy(ip + 8, source.bytes.data(), source.bytes.size());
  }
  store_be(buffer.data - kUdpHeader, port_of(from));
  make_packet_head({head, head_length_}, kNetwork, 0, bytes);
  return {.data = head,
          .length = static_cast<std::uint32_t>(head_length_ + bytes),
          .segment = beside.segment};
}

}  // namespace softhca::port
