// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/peer.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace softhca::bench {

void die(const std::string& what) {
  if (errno)
    std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what.c_str(),
                 std::strerror(errno));
  else
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}

namespace {

int prepared(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Peer::Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Peer::~Peer() {
  if (fd_ >= 0) close(fd_);
}

Peer Peer::accept_one(std::uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) die("socket");
  const int on = 1, off = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) || listen(listener, 1))
    die("TCP port " + std::to_string(port));
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) die("accept");
  close(listener);
  return Peer(prepared(fd));
}

Peer Peer::connect_to(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    errno = 0;
    die(host + ": " + gai_strerror(error));
  }
  for (int attempt = 0; attempt < 200; ++attempt) {
    for (const addrinfo* a = found; a; a = a->ai_next) {
      const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
      if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
        freeaddrinfo(found);
        return Peer(prepared(fd));
      }
      if (fd >= 0) close(fd);
    }
    usleep(50'000);
  }
  die("no server at " + host + " port " + std::to_string(port));
}

void Peer::send_bytes(const void* data, std::size_t bytes) {
  auto* from = static_cast<const char*>(data);
  while (bytes) {
    const ssize_t n = ::send(fd_, from, bytes, MSG_NOSIGNAL);
    if (n <= 0) die("the other side is gone");
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void Peer::receive_bytes(void* data, std::size_t bytes) {
  auto* to = static_cast<char*>(data);
  while (bytes) {
    const std::size_t n = receive_some(to, bytes);
    to += n;
    bytes -= n;
  }
}

std::size_t Peer::send_some(const void* data, std::size_t bytes) {
  const ssize_t n = ::send(fd_, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno != EAGAIN) die("the other side is gone");
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

std::size_t Peer::receive_some(void* data, std::size_t bytes) {
  const ssize_t n = ::recv(fd_, data, bytes, 0);
  if (n == 0) errno = 0;
  if (n <= 0) die("the other side is gone");
  return static_cast<std::size_t>(n);
}

bool Peer::readable() const {
  pollfd p{fd_, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

void Peer::await_any() const {
  pollfd p{fd_, POLLIN | POLLOUT, 0};
  poll(&p, 1, -1);
}

}  // namespace softhca::bench
