// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/local_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/system_error.hpp"

namespace softhca::guest {
namespace {

bool make_address(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return true;
}

Error too_long(const std::string& path) {
  return {path + ": the path of a socket has at most 107 bytes; choose a shorter directory",
          ENAMETOOLONG};
}

/// Calls recvmsg(2) once more after ECONNRESET: the other end is closed, but what it sent before
/// can still be read.
ssize_t receive_message(int socket, msghdr& message) {
  const std::size_t control_bytes = message.msg_controllen;
  ssize_t got = -1;
  for (int attempt = 0; attempt < 4; ++attempt) {
    message.msg_controllen = control_bytes;
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0 || (errno != EINTR && errno != ECONNRESET)) break;
  }
  return got;
}

}  // namespace

// The kernel adds the sender's credentials to each record, but not to the end.
void tell_empty_records(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

Received receive_record(int socket, std::span<std::byte> buffer, std::size_t most,
                        ReceivedRecord& record) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int) * abi::kMaxFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Without room for descriptors, the kernel drops them.
  message.msg_controllen =
      CMSG_SPACE(sizeof(ucred)) + (most == 0 ? 0 : CMSG_SPACE(sizeof(int) * most));
  const ssize_t got = receive_message(socket, message);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kEnd;
  record = {};
  record.bytes = static_cast<std::size_t>(got);
  bool is_record = got > 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    is_record = true;
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (record.descriptors < record.fds.size())
        record.fds[record.descriptors++] = std::move(owned);
    }
  }
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return is_record && whole ? Received::kBytes : Received::kEnd;
}

Received receive_bytes(int socket, std::span<std::byte> buffer, std::size_t& bytes) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t got = receive_message(socket, message);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kEnd;
  bytes = static_cast<std::size_t>(got);
  return got > 0 && (message.msg_flags & MSG_CTRUNC) == 0 ? Received::kBytes : Received::kEnd;
}

Expected<UniqueFd> connect_to(const std::string& path, int type) {
  sockaddr_un address;
  if (!make_address(path, address)) return too_long(path);
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket");
  const timeval longest{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error(path);
  return fd;
}

Expected<UniqueFd> listen_on(const std::string& path, int type, unsigned mode) {
  sockaddr_un address;
  if (!make_address(path, address)) return too_long(path);
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(fd.get(), 64) != 0)
    return system_error(path);
  return fd;
}

}  // namespace softhca::guest
