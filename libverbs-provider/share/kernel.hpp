// SPDX-License-Identifier: Apache-2.0

// The system calls that move memory, in a table, so that tests can make each of them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace softhca::provider {

/// Opens a file with close-on-exec. Bypasses the preload library, because its path functions need
/// much stack.
int open_file(const char* path, int flags);

struct KernelCalls {
  void* (*map)(void* addr, std::size_t length, int protection, int flags, int fd, off_t offset);
  int (*unmap)(void* addr, std::size_t length);
  void* (*move)(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                void* new_addr);
  int (*advise)(void* addr, std::size_t length, int advice);
  int (*reserve)(int fd, int mode, off_t offset, off_t length);  ///< fallocate
  int (*userfaultfd)(int flags);
  int (*control)(int fd, unsigned long request, void* argument);  ///< ioctl
  /// True if the calling thread is the only one of the process.
  bool (*single_threaded)();

  /// The kernel's calls. They bypass the preload library, which would take madvise and mremap for
  /// calls of the application.
  static const KernelCalls& real();
};

}  // namespace softhca::provider
