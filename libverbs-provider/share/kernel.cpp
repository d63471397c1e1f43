// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/kernel.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca::provider {
namespace {

void* move_pages(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                 void* new_addr) {
  const long moved = ::syscall(SYS_mremap, old_addr, old_length, new_length, flags, new_addr);
  return reinterpret_cast<void*>(moved);
}

int advise_kernel(void* addr, std::size_t length, int advice) {
  return static_cast<int>(::syscall(SYS_madvise, addr, length, advice));
}

int open_userfaultfd(int flags) {
  return static_cast<int>(::syscall(SYS_userfaultfd, static_cast<long>(flags)));
}

int device_control(int fd, unsigned long request, void* argument) {
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

bool is_single_threaded() {
  // The folder has one link for itself, one for its parent, and one for each thread.
  struct stat tasks;
  const int fd = open_file("/proc/self/task", O_PATH);
  const bool single = fd >= 0 && ::fstat(fd, &tasks) == 0 && tasks.st_nlink == 3;
  if (fd >= 0) ::close(fd);
  return single;
}

}  // namespace

int open_file(const char* path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC));
}

const KernelCalls& KernelCalls::real() {
  static constexpr KernelCalls kCalls{::mmap,         ::munmap,          move_pages,
                                      advise_kernel,  ::fallocate,       open_userfaultfd,
                                      device_control, is_single_threaded};
  return kCalls;
}

}  // namespace softhca::provider
