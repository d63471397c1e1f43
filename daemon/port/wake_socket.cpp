// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/wake_socket.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "daemon/port/packet/socket.hpp"
#include "daemon/port/roce_filter.hpp"

namespace softhca::port {
namespace {

Error failure(const char* what) {
  return {std::string("cannot listen for frames to wake on: ") + what + ": " + std::strerror(errno),
          errno};
}

/// The filter is attached before the socket is bound, so that the socket gets no other frames.
bool set_up_packets(int fd, int interface_index) {
  const int least = 1;  // the kernel raises it to its minimum: a few frames
  const int on = 1;
  if (!attach(fd, roce_filter(1))) return false;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) < 0) return false;
  // Older kernels also deliver the port's own frames, which only causes needless wake-ups.
  (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  return bind_to_interface(fd, interface_index);
}

bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Expected<WakeSocket> WakeSocket::open(int interface_index) {
  WakeSocket s;
  s.packets_ = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s.packets_ < 0) return failure("packet socket (needs CAP_NET_RAW)");
  if (!set_up_packets(s.packets_, interface_index)) return failure("packet socket");
  s.event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  s.wait_ = epoll_create1(EPOLL_CLOEXEC);
  if (s.event_ < 0 || s.wait_ < 0 || !watch(s.wait_, s.packets_) || !watch(s.wait_, s.event_))
    return failure("epoll");
  return s;
}

WakeSocket::WakeSocket(WakeSocket&& other) noexcept
    : packets_(std::exchange(other.packets_, -1)),
      event_(std::exchange(other.event_, -1)),
      wait_(std::exchange(other.wait_, -1)) {}

WakeSocket& WakeSocket::operator=(WakeSocket&& other) noexcept {
  std::swap(packets_, other.packets_);
  std::swap(event_, other.event_);
  std::swap(wait_, other.wait_);
  return *this;
}

WakeSocket::~WakeSocket() {
  for (int fd : {wait_, event_, packets_})
    if (fd >= 0) close(fd);
}

void WakeSocket::drain() {
  char byte;
  // The kernel reports an error other than "empty" (the interface went down) once, and the read
  // clears it.
  while (recv(packets_, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == ENETDOWN) {
  }
  eventfd_t count;
  (void)eventfd_read(event_, &count);
}

void WakeSocket::poke() { (void)eventfd_write(event_, 1); }

}  // namespace softhca::port
