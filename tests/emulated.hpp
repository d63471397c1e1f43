// What an emulator of another processor leaves out of system calls: tests of it are skipped.
#pragma once

#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>

#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// False under qemu-user, which keeps most advice to itself: it takes even such as there is none.
inline bool kernel_takes_advice() { return ::madvise(nullptr, 0, 9999) != 0 && errno == EINVAL; }

/// False under qemu-user, which does not know these options.
inline bool kernel_takes_option(int family, int type, int level, int option) {
  const UniqueFd fd(::socket(family, type, 0));
  const int on = 1;
  return !fd || ::setsockopt(fd.get(), level, option, &on, sizeof on) == 0 || errno != ENOPROTOOPT;
}
inline bool kernel_takes_packet_options() {
  return kernel_takes_option(AF_PACKET, SOCK_RAW, SOL_PACKET, PACKET_AUXDATA);
}
inline bool kernel_takes_udp_options() {
  return kernel_takes_option(AF_INET, SOCK_DGRAM, IPPROTO_UDP, UDP_GRO);
}

}  // namespace softhca
