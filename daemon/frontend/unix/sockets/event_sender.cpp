// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/event_sender.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace softhca::control {
namespace {

/// Returns false if the socket is full. A closed socket counts as sent: no program waits for the
/// event.
bool send_event(int fd, const void* record, std::size_t bytes) {
  if (::send(fd, record, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  return errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS;
}

}  // namespace

bool EventSender::completion_event(int channel_fd, std::uint64_t user_handle) {
  return send_event(channel_fd, &user_handle, sizeof user_handle);
}

bool EventSender::async_event(int async_fd, std::uint64_t element, std::uint32_t type) {
  const struct {
    std::uint64_t element;
    std::uint32_t type;
    std::uint32_t reserved;
  } record{element, type, 0};
  return send_event(async_fd, &record, sizeof record);
}

}  // namespace softhca::control
