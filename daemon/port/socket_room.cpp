// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/socket_room.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace softhca::port {
namespace {

void set_buffer(int fd, int force, int option, int bytes) {
  if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof bytes) != 0)
    (void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
}

}  // namespace

void set_socket_buffers(int fd, int receive_bytes, int send_bytes) {
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive_bytes);
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, send_bytes);
}

SocketRoom::SocketRoom(int first) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (getsockopt(first, SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0)
    buffer_ = static_cast<std::uint64_t>(bytes);
}

bool SocketRoom::look(std::span<const int> sockets) {
  if (!blocked_ && unasked_ < buffer_ / 8) return false;
  unasked_ = 0;
  std::uint64_t held = 0;
  for (const int fd : sockets) {
    int bytes = 0;
    if (ioctl(fd, SIOCOUTQ, &bytes) == 0) held += static_cast<std::uint64_t>(bytes);
  }
  blocked_ = held > buffer_ / 2;
  return blocked_;
}

}  // namespace softhca::port
