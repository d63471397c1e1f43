// SPDX-License-Identifier: Apache-2.0

// How two programs of a system test meet: over TCP.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "tests/system/programs.hpp"

/// A server's without an address, else a client's; it tries for ten seconds.
inline int connected_socket(int port, const char* address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (address != nullptr) {
    inet_pton(AF_INET, address, &where.sin_addr);
    for (int i = 0; i < 200; ++i) {
      if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return fd;
      usleep(50000);
    }
    expect(false, "connecting");
  }
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  expect(bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 && listen(fd, 1) == 0,
         "listening");
  return accept(fd, nullptr, nullptr);
}

/// The same of the other side: all queue pair numbers, or that a step is done.
template <class T>
T exchange(int fd, const T& mine) {
  T theirs{};
  expect(send(fd, &mine, sizeof mine, 0) == sizeof mine, "the other side is gone");
  expect(recv(fd, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs, "the other side is gone");
  return theirs;
}
