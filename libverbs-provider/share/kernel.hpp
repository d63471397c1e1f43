// The system calls that move memory, as a table, so that tests can make each of them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace softhca::provider {

/// Opens a file, to be closed on exec, past the preload library, which needs much stack for paths.
int open_file(const char* path, int flags);

/// Seals memory of the daemon's that is mapped (abi/control.hpp). Where that fails the daemon has
/// it sealed, which takes longer.
void seal_memory(int fd);

struct KernelCalls {
  void* (*map)(void* addr, std::size_t length, int protection, int flags, int fd, off_t offset);
  int (*unmap)(void* addr, std::size_t length);
  void* (*move)(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                void* new_addr);
  int (*advise)(void* addr, std::size_t length, int advice);
  int (*reserve)(int fd, int mode, off_t offset, off_t length);  ///< fallocate
  int (*userfaultfd)(int flags);
  int (*control)(int fd, unsigned long request, void* argument);  ///< ioctl
  /// True when the calling thread is the only one of the process.
  bool (*single_threaded)();

  /// The kernel's own, past the preload library, which takes madvise and mremap for the
  /// application's.
  static const KernelCalls& real();
};

}  // namespace softhca::provider
