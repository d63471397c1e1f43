// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/record_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softhca::provider {
namespace {

/// Moves the descriptors of a received message to `fds`.
void collect_fds(msghdr& message, ReceivedFds& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.add(fd);
    }
  }
}

/// Sends a message. Returns 0 or an errno value.
int send(int socket, const msghdr& message) {
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

}  // namespace

void ReceivedFds::clear() {
  for (int& fd : fds_) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  count_ = 0;
  dropped_ = false;
  has_places_ = false;
}

int ReceivedFds::check(unsigned wanted) const {
  if (count_ == wanted) return 0;
  return dropped_ && count_ < wanted ? EMFILE : EPROTO;
}

int ReceivedFds::take(unsigned i) {
  const int fd = fds_[i];
  fds_[i] = -1;
  return fd;
}

void ReceivedFds::add(int fd) {
  if (count_ < abi::kMaxFds)
    fds_[count_++] = fd;
  else
    ::close(fd);
}

int connect_socket(const char* path, int& fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return ENAMETOOLONG;
  std::strcpy(address.sun_path, path);
  fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int result;
  do result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

bool is_shortage(int error) { return error == ENOMEM || error == ENOBUFS; }

int send_record(int fd, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return send(fd, message);
}

int send_descriptor(int socket, int fd) {
  std::byte byte{};
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return send(socket, message);
}

Received receive_record(int fd, std::span<iovec> parts, ReceivedFds& fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxFds)];
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return {};
  collect_fds(message, fds);
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (cut) fds.note_dropped();
  return {static_cast<std::size_t>(got), cut && fds.count() == abi::kMaxFds};
}

Received receive_reply(int fd, std::span<iovec> parts, std::uint32_t tag, ReceivedFds& fds) {
  const auto& header = *static_cast<const abi::ReplyHeader*>(parts.front().iov_base);
  for (;; fds.clear()) {
    const Received got = receive_record(fd, parts, fds);
    if (got.bytes < sizeof header || static_cast<std::int32_t>(header.tag - tag) >= 0) return got;
  }
}

}  // namespace softhca::provider
