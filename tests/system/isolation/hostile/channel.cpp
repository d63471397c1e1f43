// SPDX-License-Identifier: Apache-2.0

#include "tests/system/isolation/hostile/channel.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "abi/session.hpp"

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

abi::HelloReply Channel::greet() {
  abi::HelloReply hello{};
  if (ask(abi::Operation::kHello, abi::HelloRequest{abi::kSessionMagic, {abi::kAbiVersion, 0}},
          hello) != 0)
    die("hello");
  return hello;
}

int Channel::exchange(abi::Operation operation, std::span<const std::byte> body,
                      std::vector<std::byte>& reply) {
  const std::vector<std::byte> record = request_record(operation, ++tag_, body);
  if (::send(socket_, record.data(), record.size(), MSG_NOSIGNAL) < 0) die("send");
  std::optional<ReplyRecord> got = receive_reply(socket_);
  if (!got) die("the session is over");
  if (got->header.tag != tag_) die("a reply to another request");
  fds_ = std::move(got->fds);
  reply = std::move(got->body);
  return got->header.error;
}

Mapping Channel::map(std::size_t fd) const {
  struct stat status {};
  if (fd >= fds_.size() || ::fstat(fds_[fd].get(), &status) != 0) die("no descriptor came");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds_[fd].get(), 0);
  if (base == MAP_FAILED) die("mmap");
  return {static_cast<std::byte*>(base), bytes};
}

}  // namespace softhca::scribble
