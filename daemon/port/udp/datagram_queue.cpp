// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/udp/datagram_queue.hpp"

#include <linux/errqueue.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/endian.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/port/frame_kind.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

/// Receive buffer of a socket that receives only ICMP errors.
constexpr int kErrorBytes = 64 << 10;

template <class T>
bool set(int fd, int level, int option, const T& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// Sets "don't fragment", whatever ICMP reported about paths. A packet that is too long for a path
/// is lost, and forged ICMP cannot narrow paths. With any other of these settings the kernel
/// chooses the IPv4 identification itself, which the ICRC covers.
bool set_up_sender(int fd, bool is_ipv4, unsigned interface_index) {
  if (is_ipv4) {
    ip_mreqn out{};
    out.imr_ifindex = static_cast<int>(interface_index);
    return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_PROBE}) &&
           set(fd, IPPROTO_IP, IP_RECVERR, 1) && set(fd, IPPROTO_IP, IP_MULTICAST_IF, out);
  }
  return set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, int{IPV6_PMTUDISC_PROBE}) &&
         set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1) && set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) &&
         set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface_index));
}

/// Destination and settings of a packet, from its headers.
struct Way {
  Gid destination;
  bool is_ipv4 = false;
  int traffic_class = 0;
  int hop_limit = 0;
  std::uint16_t source_port = 0;
};

Way way_of(std::span<const std::byte> head, std::size_t network) {
  const std::byte* ip = head.data() + network;
  const std::byte* udp = head.data() + head.size() - kUdpHeader;
  Way way{.is_ipv4 = static_cast<std::size_t>(udp - ip) == kIpv4Header,
          .source_port = load_be<std::uint16_t>(udp)};
  if (way.is_ipv4) {
    way.destination = Gid::from_ipv4(load_be<std::uint32_t>(ip + 16));
    way.traffic_class = std::to_integer<int>(ip[1]);
    way.hop_limit = std::to_integer<int>(ip[8]);
  } else {
    std::memcpy(way.destination.bytes.data(), ip + 24, way.destination.bytes.size());
    way.traffic_class = static_cast<int>(load_be<std::uint32_t>(ip) >> 20 & 0xff);
    way.hop_limit = std::to_integer<int>(ip[7]);
  }
  return way;
}

/// Appends to the control messages at `to`; returns their end.
template <class T>
std::byte* put(std::byte* to, int level, int type, T value) {
  cmsghdr header{};
  header.cmsg_level = level;
  header.cmsg_type = type;
  header.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + CMSG_LEN(0), &value, sizeof value);
  return to + CMSG_SPACE(sizeof value);
}

/// Returns the error of an IP packet; null: `header` has none.
const sock_extended_err* error_in(const msghdr& header) {
  const cmsghdr* c = CMSG_FIRSTHDR(&header);
  const bool is_error =
      c != nullptr && ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                       (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR));
  return is_error ? reinterpret_cast<const sock_extended_err*>(CMSG_DATA(c)) : nullptr;
}

}  // namespace

Expected<DatagramQueue::Sockets> DatagramQueue::open(const Gid& address, unsigned interface_index) {
  Sockets sockets;
  for (UniqueFd& fd : sockets) {
    fd = UniqueFd(socket(family_of(address), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd || !drop_everything(fd.get()) ||
        !set_up_sender(fd.get(), address.is_ipv4(), interface_index))
      return system_error("UDP socket");
    set_socket_buffers(fd.get(), kErrorBytes, kSendBytes);
    if (auto bound = bind_udp(fd.get(), address, 0, interface_index); !bound) return bound.error();
  }
  return sockets;
}

DatagramQueue::DatagramQueue(Sockets sockets, unsigned interface_index)
    : sockets_(std::move(sockets)),
      interface_index_(interface_index),
      room_(sockets_.front().get()) {
  for (std::size_t i = 0; i < kFlows; ++i) {
    descriptors_[i] = sockets_[i].get();
    KernelAddress bound;
    bound.length = sizeof bound.bytes;
    if (getsockname(descriptors_[i], bound.get(), &bound.length) == 0)
      headers_.source_ports[i] = port_of(*bound.get());
  }
}

void DatagramQueue::add(std::span<const std::byte> frame) {
  const std::size_t head = roce_offset(frame);
  if (head == 0) return counters_.dropped.add();
  const auto bytes = static_cast<std::uint32_t>(frame.size() - head);
  const iovec all{const_cast<std::byte*>(frame.data()) + head, bytes};
  add(Train{.head = frame.first(head),
            .network = network_offset(frame),
            .pieces = {&all, 1},
            .bytes = bytes,
            .segment = bytes,
            .packets = 1});
}

TrainLimits DatagramQueue::limits() const {
  TrainLimits limits = kSocketTrains;
  if (!takes_trains_) limits.packets = 1;
  if (room_.blocked()) limits.packets = 0;
  return limits;
}

void DatagramQueue::add(const Train& train) {
  assert(!is_full(train.pieces.size()));
  const Way way = way_of(train.head, train.network);
  const auto& ports = headers_.source_ports;
  const auto flow = std::find(ports.begin(), ports.end(), way.source_port);
  if (flow == ports.end()) return counters_.dropped.add(train.packets);

  Message& message = messages_[count_];
  message.to = kernel_address(way.destination, kRocePort, interface_index_);
  message.socket = static_cast<std::size_t>(flow - ports.begin());
  message.head_length = train.head.size();
  message.bytes = train.bytes;
  message.segment = train.segment;
  message.packets = train.packets;
  std::byte* const beside = message.beside.data();
  std::byte* end = beside;
  end = way.is_ipv4 ? put(end, IPPROTO_IP, IP_TOS, way.traffic_class)
                    : put(end, IPPROTO_IPV6, IPV6_TCLASS, way.traffic_class);
  // The kernel rejects 0 in IPv4.
  if (!way.is_ipv4)
    end = put(end, IPPROTO_IPV6, IPV6_HOPLIMIT, way.hop_limit);
  else if (way.hop_limit != 0)
    end = put(end, IPPROTO_IP, IP_TTL, way.hop_limit);
  if (train.packets > 1)
    end = put(end, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(train.segment));

  msghdr& header = headers_of_messages_[count_++].msg_hdr;
  header.msg_name = message.to.get();
  header.msg_namelen = message.to.length;
  header.msg_control = beside;
  header.msg_controllen = static_cast<std::size_t>(end - beside);
  header.msg_iov = &pieces_[used_];
  header.msg_iovlen = train.pieces.size();
  for (const iovec& piece : train.pieces) pieces_[used_++] = piece;
}

/// Returns how many messages from `first` on use the same socket.
std::size_t DatagramQueue::run_at(std::size_t first) const {
  std::size_t end = first + 1;
  while (end < count_ && messages_[end].socket == messages_[first].socket) ++end;
  return end - first;
}

/// Sends the queued messages. The kernel reports an ICMP error about an earlier packet as the
/// failure of a later message, which it does not send; so flush() sends that message again. Any
/// host can send ICMP errors, so flush() reads a limited number of them; beyond it, a message is
/// sent once more.
void DatagramQueue::flush() {
  unsigned errors_left = kMostErrors;
  std::size_t repeated = kMessages;  // none yet
  for (std::size_t done = 0; done < count_;) {
    const int fd = descriptors_[messages_[done].socket];
    const std::size_t run = run_at(done);
    const int result =
        sendmmsg(fd, &headers_of_messages_[done], static_cast<unsigned>(run), MSG_DONTWAIT);
    if (result < 0) {
      const int error = errno;
      const bool is_full = error == EAGAIN || error == ENOBUFS;
      if (error == EINTR || (!is_full && take_errors(fd, errors_left))) continue;
      if (!is_full && errors_left == 0 && std::exchange(repeated, done) != done) continue;
      handle_refusal(done++, error, errors_left);
      continue;
    }
    const auto sent = static_cast<std::size_t>(result);
    if (sent < run) (void)take_errors(fd, errors_left);
    for (const std::size_t end = done + sent; done < end; ++done) count_sent(messages_[done]);
  }
  count_ = used_ = 0;
}

void DatagramQueue::count_sent(const Message& message) {
  room_.sent(counters_.count_sent(message.packets, message.head_length, message.bytes));
}

/// Handles a message that the kernel refused.
void DatagramQueue::handle_refusal(std::size_t at, int error, unsigned& errors_left) {
  const Message& message = messages_[at];
  if (error == EAGAIN || error == ENOBUFS) room_.refused();
  if (message.packets > 1 && (error == EIO || error == EINVAL || error == EMSGSIZE))
    return send_first(at, error, errors_left);
  counters_.dropped.add(message.packets);
}

/// Handles a train that the kernel refused, because it takes no trains on this path, or no packets
/// of this length. Only the first packet can be sent alone: the ICRC of the others covers the
/// identification that they would have had in the train. EMSGSIZE does not end the use of trains,
/// because ICMP may have caused it.
void DatagramQueue::send_first(std::size_t at, int error, unsigned& errors_left) {
  Message& message = messages_[at];
  msghdr header = headers_of_messages_[at].msg_hdr;
  header.msg_controllen -= CMSG_SPACE(sizeof(std::uint16_t));
  std::size_t count = 0;
  for (std::size_t left = message.segment; left != 0; ++count) {
    iovec& piece = header.msg_iov[count];
    piece.iov_len = std::min(piece.iov_len, left);
    left -= piece.iov_len;
  }
  header.msg_iovlen = count;
  const int fd = descriptors_[message.socket];
  const bool went = sendmsg(fd, &header, MSG_DONTWAIT) >= 0;
  counters_.dropped.add(message.packets - (went ? 1 : 0));
  if (!went) {
    (void)take_errors(fd, errors_left);
    return;
  }
  if (error != EMSGSIZE) {
    takes_trains_ = false;
    counters_.refused.add();
  }
  message.packets = 1;
  message.bytes = message.segment;
  count_sent(message);
}

/// Counts the errors in the socket's error queue. True: ICMP caused at least one.
bool DatagramQueue::take_errors(int fd, unsigned& left) {
  bool any = false;
  for (; left != 0; --left) {
    alignas(cmsghdr) std::array<std::byte, 256> beside;
    msghdr header{};
    header.msg_control = beside.data();
    header.msg_controllen = beside.size();
    if (recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    const sock_extended_err* error = error_in(header);
    if (error == nullptr) continue;
    (error->ee_errno == EMSGSIZE ? counters_.path_too_narrow : counters_.unreachable).add();
    any |= error->ee_origin != SO_EE_ORIGIN_LOCAL;
  }
  return any;
}

}  // namespace softhca::port
