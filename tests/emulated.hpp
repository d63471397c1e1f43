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

/// False under qemu-user, which keeps most advice to itself: it takes even such as there is none.
inline bool kernel_takes_advice() { return ::madvise(nullptr, 0, 9999) != 0 && errno == EINVAL; }

/// False under qemu-user where the processor lets a load overtake the store before it, as x86-64
/// does: a store-release is translated to a barrier and a store, a load-acquire to a load and a
/// barrier, with nothing between the two. So of two threads that each store and then look at what
/// the other stores, both may miss it, and a wake-up is lost. That it is qemu is told by its system
/// calls.
inline bool stores_are_seen_before_loads() { return kernel_takes_advice(); }

/// False under qemu-user: to an ioctl that it does not know it says ENOSYS, where libibverbs is
/// waiting for ENOTTY to go another way.
inline bool kernel_refuses_ioctls() {
  const UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return ::ioctl(fd.get(), RDMA_VERBS_IOCTL, nullptr) == 0 || errno != ENOSYS;
}

/// False under qemu-user. Memory of a process with several threads is not shared in place then.
inline bool kernel_has_userfaultfd() {
  constexpr long kFlags = O_CLOEXEC | UFFD_USER_MODE_ONLY;
  const UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  return fd || errno != ENOSYS;
}

/// False under qemu-user: a mutex of a process that was killed stays locked.
inline bool kernel_has_robust_mutexes() {
  void* head = nullptr;
  std::size_t length = 0;
  return ::syscall(SYS_get_robust_list, 0, &head, &length) == 0 || errno != ENOSYS;
}

/// False under qemu-user, which takes more ancillary data from the kernel than the program has room
/// for, and keeps descriptors that do not fit. That it is qemu is told by its system calls.
inline bool kernel_closes_what_does_not_fit() { return kernel_takes_advice(); }

/// False under qemu-user, which does not know these options, and where the kernel does not.
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
