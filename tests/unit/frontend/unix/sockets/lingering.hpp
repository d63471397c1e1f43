// SPDX-License-Identifier: Apache-2.0

// A descriptor that blocks its last close: a TCP connection with SO_LINGER and unread bytes at its
// peer.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

class Lingering {
 public:
  explicit Lingering(int seconds) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), generic, sizeof address), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), generic, &length), 0);
    socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), generic, sizeof address), 0);
    peer_ = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    const std::array<char, 65536> bytes{};
    while (::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    const linger on{1, seconds};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &on, sizeof on), 0);
  }

  int get() const { return socket_.get(); }
  /// Closes our copy. The copy that was passed is then the last one.
  void let_go() { socket_.reset(); }
  /// Lets blocked closes return.
  void end() { peer_.reset(); }

 private:
  UniqueFd socket_;
  UniqueFd peer_;
};

}  // namespace softhca::control
