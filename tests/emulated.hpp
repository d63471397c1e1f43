// SPDX-License-Identifier: Apache-2.0

// What an emulator of another processor leaves out of system calls, and of the order of memory
// accesses: tests of it are skipped.
#pragma once

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// True if madvise() reaches the kernel. qemu-user ignores most advice: it accepts even a value
/// that does not exist.
inline bool kernel_takes_advice() { return ::madvise(nullptr, 0, 9999) != 0 && errno == EINVAL; }

/// True if no load overtakes the store before it. Under qemu-user this fails on a processor that
/// reorders them, such as x86-64. qemu translates a store-release to a barrier and a store, and a
/// load-acquire to a load and a barrier, with nothing between the two. If two threads each store
/// and then load what the other stores, both may miss it, and a wake-up is lost. The function
/// recognizes qemu by its system calls.
inline bool stores_are_seen_before_loads() { return kernel_takes_advice(); }

/// True if an unknown ioctl does not fail with ENOSYS. qemu-user returns ENOSYS, but libibverbs
/// takes its other way only after ENOTTY.
inline bool kernel_refuses_ioctls() {
  const UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return ::ioctl(fd.get(), RDMA_VERBS_IOCTL, nullptr) == 0 || errno != ENOSYS;
}

/// True if the kernel has userfaultfd(). qemu-user does not: the provider then does not share
/// memory of a process with several threads in place.
inline bool kernel_has_userfaultfd() {
  constexpr long kFlags = O_CLOEXEC | UFFD_USER_MODE_ONLY;
  const UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  return fd || errno != ENOSYS;
}

/// True if the kernel has robust mutexes. Under qemu-user, a mutex of a killed process stays
/// locked.
inline bool kernel_has_robust_mutexes() {
  void* head = nullptr;
  std::size_t length = 0;
  return ::syscall(SYS_get_robust_list, 0, &head, &length) == 0 || errno != ENOSYS;
}

/// True if descriptors that do not fit into the program's buffer are closed. qemu-user takes more
/// ancillary data from the kernel than the program has room for, and keeps the descriptors that do
/// not fit. The function recognizes qemu by its system calls.
inline bool kernel_closes_what_does_not_fit() { return kernel_takes_advice(); }

/// True if the socket option can be set. qemu-user does not know these options, and some kernels
/// lack them.
inline bool kernel_takes_option(int family, int type, int level, int option) {
  const UniqueFd fd(::socket(family, type, 0));
  const int on = 1;
  return !fd || ::setsockopt(fd.get(), level, option, &on, sizeof on) == 0 || errno != ENOPROTOOPT;
}
inline bool kernel_takes_packet_options() {
  return kernel_takes_option(AF_PACKET, SOCK_RAW, SOL_PACKET, PACKET_AUXDATA);
}
inline bool kernel_takes_udp_options() {
  return kernel_takes_option(AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_IF);
}

}  // namespace softhca
