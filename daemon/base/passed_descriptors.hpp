// SPDX-License-Identifier: Apache-2.0

// Descriptors that processes pass to each other by a Unix socket (SCM_RIGHTS, unix(7)).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// Most descriptors that one call sends.
inline constexpr std::size_t kMostPassed = 3;

/// Sends as much of `bytes` (at least one) as the socket has room for, and `fds` with the first
/// byte. Returns the number of bytes sent, or -1 with errno set if there are none (EAGAIN: the
/// socket is full). Does not block; signals do not interrupt it.
inline ssize_t send_with_descriptors(int socket, std::span<const std::byte> bytes,
                                     std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostPassed)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent;
}

/// Receives one record into `record`, and its descriptors into `fds` in their order; drops what
/// exceeds either. `flags` as for recvmsg(2). Returns the bytes of the record, 0 when the other end
/// is closed or the record is empty, or -1 with errno set. Signals do not interrupt it.
///
/// Dropped descriptors are closed here, which may take as long as their sender likes. So a thread
/// that serves others may call this only with a trusted sender.
template <std::size_t N>
ssize_t receive_with_descriptors(int socket, std::span<std::byte> record,
                                 std::array<UniqueFd, N>& fds, int flags = 0) {
  iovec part{record.data(), record.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * N)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int) * N);  // the kernel fills what is there
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  while (got < 0 && errno == EINTR);
  const cmsghdr* header = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
    return got;
  const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count && i < N; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
    fds[i] = UniqueFd(fd);
  }
  return got;
}

}  // namespace softhca
