// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/proc_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {
namespace {

pthread_mutex_t keep_mutex = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

ProcFile& ProcFile::maps() {
  static constinit ProcFile file("/proc/self/maps", O_RDONLY);
  return file;
}

ProcFile& ProcFile::memory() {
  static constinit ProcFile file("/proc/self/mem", O_RDWR);
  return file;
}

int ProcFile::open() const { return open_file(path_, flags_); }

/// Returns the kept descriptor; -1: there is none, or the program has closed it.
int ProcFile::kept() const {
  const int fd = fd_.load(std::memory_order_acquire);
  const FileIdentity file{device_.load(std::memory_order_relaxed),
                          inode_.load(std::memory_order_relaxed)};
  return fd >= 0 && identity_of(fd) == file ? fd : -1;
}

/// Opens the file and keeps it, unless one is kept. REQUIRES: keep_mutex held.
void ProcFile::keep() {
  if (kept() >= 0) return;
  const int fd = open();
  const FileIdentity file = identity_of(fd);
  device_.store(file.device, std::memory_order_relaxed);
  inode_.store(file.inode, std::memory_order_relaxed);
  fd_.store(fd, std::memory_order_release);
}

/// Replaces the kept file in a forked child, because it is the parent's.
void ProcFile::keep_again() {
  const int fd = kept();
  if (fd < 0) return;
  ::close(fd);
  fd_.store(-1, std::memory_order_relaxed);
  keep();
}

void ProcFile::keep_all() {
  static bool watches_forks = false;
  constexpr auto kLock = [] { pthread_mutex_lock(&keep_mutex); };
  constexpr auto kUnlock = [] { pthread_mutex_unlock(&keep_mutex); };
  constexpr auto kInChild = [] {
    const int error = errno;
    maps().keep_again();
    memory().keep_again();
    errno = error;
    pthread_mutex_unlock(&keep_mutex);
  };
  kLock();
  if (!watches_forks) watches_forks = ::pthread_atfork(kLock, kUnlock, kInChild) == 0;
  if (watches_forks) {
    maps().keep();
    memory().keep();
  }
  kUnlock();
}

ProcFile::Use::Use(const ProcFile& file) : fd_(file.open()) {
  if (fd_ >= 0) return;
  error_ = errno;
  fd_ = file.kept();
  kept_ = fd_ >= 0;
}

ProcFile::Use::~Use() {
  if (fd_ >= 0 && !kept_) ::close(fd_);
}

}  // namespace softhca::provider
