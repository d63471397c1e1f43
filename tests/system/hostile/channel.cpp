#include "tests/system/hostile/channel.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace softhca::scribble {

void die(const std::string& what) {
  std::fprintf(stderr, "scribble: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

Channel::Channel(const std::string& socket_path)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) die("path too long");
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (socket_ < 0 || ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    die(socket_path);
}

int Channel::exchange(abi::Operation operation, std::span<const std::byte> body,
                      std::vector<std::byte>& reply) {
  std::vector<std::byte> record(sizeof(abi::RequestHeader) + body.size());
  const abi::RequestHeader request{static_cast<std::uint32_t>(operation), ++tag_};
  std::memcpy(record.data(), &request, sizeof request);
  std::memcpy(record.data() + sizeof request, body.data(), body.size());
  if (::send(socket_, record.data(), record.size(), MSG_NOSIGNAL) < 0) die("send");

  for (const int fd : std::exchange(fds_, {})) ::close(fd);
  std::array<std::byte, 2048> bytes;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxFds)];
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  if (got < static_cast<ssize_t>(sizeof(abi::ReplyHeader))) die("the session is over");
  if (const cmsghdr* c = CMSG_FIRSTHDR(&message)) {
    fds_.resize((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds_.data(), CMSG_DATA(c), fds_.size() * sizeof(int));
  }
  abi::ReplyHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.tag != tag_) die("a reply to another request");
  reply.assign(bytes.data() + sizeof header, bytes.data() + got);
  return header.error;
}

Mapping Channel::map(std::size_t fd) const {
  struct stat status {};
  if (fd >= fds_.size() || ::fstat(fds_[fd], &status) != 0) die("no descriptor came");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds_[fd], 0);
  if (base == MAP_FAILED) die("mmap");
  return {static_cast<std::byte*>(base), bytes};
}

}  // namespace softhca::scribble
