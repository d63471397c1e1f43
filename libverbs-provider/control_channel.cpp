#include "libverbs-provider/control_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softhca::provider {
namespace {

constexpr std::size_t kMaxParts = 4;

/// Moves the descriptors of a received message into `fds`.
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

}  // namespace

ReceivedFds::~ReceivedFds() {
  for (const int fd : fds_)
    if (fd >= 0) ::close(fd);
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

ControlChannel::~ControlChannel() {
  if (fd_ >= 0) ::close(fd_);
}

int ControlChannel::connect(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return ENAMETOOLONG;
  std::strcpy(address.sun_path, path);
  fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return errno;
  int result;
  do result = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

/// Once lost it stays so, and in a forked child the lock may be held by a thread that is not there.
ControlChannel::Turn::Turn(ControlChannel& channel) : channel_(channel), locked_(!channel.lost()) {
  if (locked_) channel_.mutex_.lock();
}

ControlChannel::Turn::~Turn() {
  if (locked_) channel_.mutex_.unlock();
}

int ControlChannel::Turn::call(abi::Operation operation, std::span<const iovec> body,
                               std::span<std::byte> reply, ReceivedFds& fds) {
  if (channel_.lost()) return EIO;
  const abi::RequestHeader header{static_cast<std::uint32_t>(operation), channel_.next_tag_++};
  return channel_.exchange(header, body, reply, fds);
}

/// Once requests and replies no longer pair up, the connection is of no use.
int ControlChannel::broken(int error) {
  lost_.store(true, std::memory_order_relaxed);
  return error;
}

int ControlChannel::destroy(abi::Operation operation, std::uint32_t handle) {
  const int error = call(operation, abi::HandleBody{handle, 0});
  return lost() ? 0 : error;
}

int ControlChannel::exchange(const abi::RequestHeader& header, std::span<const iovec> body,
                             std::span<std::byte> reply, ReceivedFds& fds) {
  iovec parts[kMaxParts] = {{const_cast<abi::RequestHeader*>(&header), sizeof header}};
  std::size_t count = 1;
  for (const iovec& part : body) parts[count++] = part;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t sent;
  do sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno == EMSGSIZE ? EINVAL : broken(EIO);
  return receive(reply, header.tag, fds);
}

int ControlChannel::receive(std::span<std::byte> reply, std::uint32_t tag, ReceivedFds& fds) {
  abi::ReplyHeader header{};
  iovec parts[] = {{&header, sizeof header}, {reply.data(), reply.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxFds)];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do got = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return broken(EIO);
  collect_fds(message, fds);
  if (static_cast<std::size_t>(got) < sizeof header || header.tag != tag) return broken(EPROTO);
  if (header.error != 0) return header.error > 0 ? header.error : broken(EPROTO);
  const bool whole = static_cast<std::size_t>(got) >= sizeof header + reply.size();
  return whole && (message.msg_flags & MSG_CTRUNC) == 0 ? 0 : broken(EPROTO);
}

bool ControlChannel::hung_up() {
  if (lost()) return true;
  pollfd state{fd_, POLLRDHUP, 0};
  if (::poll(&state, 1, 0) <= 0) return false;
  if ((state.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0) return false;
  lost_.store(true, std::memory_order_relaxed);
  return true;
}

void ControlChannel::abandon() {
  lost_.store(true, std::memory_order_relaxed);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace softhca::provider
