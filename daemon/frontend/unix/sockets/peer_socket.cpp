// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/peer_socket.hpp"

#include <sys/utsname.h>

#include <cstdio>

namespace softhca::control {

bool closing_collects_others() {
  static const bool collects = [] {
    utsname system{};
    unsigned major = 0, minor = 0;
    if (::uname(&system) != 0) return true;
    const int parts = std::sscanf(system.release, "%u.%u", &major, &minor);
    return parts != 2 || major < 6 || (major == 6 && minor < 10);
  }();
  return collects;
}

}  // namespace softhca::control
