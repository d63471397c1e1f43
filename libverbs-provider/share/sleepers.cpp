// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/sleepers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {
namespace {

// Missing in the headers of older kernels.
constexpr long kFutexWaitv = 449;
constexpr long kFutexWait = 454;
constexpr int kLockPi2 = 13;

struct Waiter {  // struct futex_waitv
  std::uint64_t value;
  std::uint64_t addr;
  std::uint32_t flags;
  std::uint32_t reserved;
};

/// Returns how often other threads have stopped running, voluntarily (as when falling asleep) or
/// not (as when about to fall asleep).
long switches_of_others() {
  rusage all{};
  rusage own{};
  ::getrusage(RUSAGE_SELF, &all);
  ::getrusage(RUSAGE_THREAD, &own);
  return all.ru_nvcsw + all.ru_nivcsw - own.ru_nvcsw - own.ru_nivcsw;
}

bool sleeps_at_first_address(int operation) {
  return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI ||
         operation == kLockPi2 || operation == FUTEX_WAIT_REQUEUE_PI;
}

}  // namespace

void SharedFutexSleepers::watch(std::uint64_t begin, std::uint64_t end) {
  begin_ = begin;
  end_ = end;
  if (only_watched_) looked_ = false;
}

bool SharedFutexSleepers::sleeps_in(std::uint64_t begin, std::uint64_t end) {
  const long now = switches_of_others();
  if (!looked_ || now != switches_) {
    switches_ = now;
    look();
    looked_ = !too_many_;
  }
  return too_many_ || std::any_of(addresses_, addresses_ + count_,
                                  [&](std::uint64_t addr) { return begin <= addr && addr < end; });
}

void SharedFutexSleepers::look() {
  only_watched_ = false;
  look_at_all();
  if (!too_many_) return;
  only_watched_ = true;
  look_at_all();
}

void SharedFutexSleepers::look_at_all() {
  count_ = 0;
  too_many_ = false;
  const int tasks = open_file("/proc/self/task", O_RDONLY | O_DIRECTORY);
  if (tasks < 0) return note_failure(errno);
  alignas(dirent64) char buffer[1024];
  long bytes;
  while ((bytes = ::syscall(SYS_getdents64, tasks, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      if (entry->d_name[0] != '.') look_at(tasks, entry->d_name);
      at += entry->d_reclen;
    }
  }
  ::close(tasks);
}

void SharedFutexSleepers::look_at(int tasks, const char* thread) {
  char text[256];
  const std::size_t length = std::strlen(thread);
  if (length + sizeof "/syscall" > sizeof text) return;
  std::memcpy(text, thread, length);
  std::memcpy(text + length, "/syscall", sizeof "/syscall");
  const auto fd = static_cast<int>(::syscall(SYS_openat, tasks, text, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return note_failure(errno);
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (got <= 0) return;
  text[got] = '\0';
  // The number of the system call and six arguments, or one word if the thread is running.
  char* at = text;
  const long number = std::strtol(at, &at, 10);
  // A wait with a timeout that a stop has interrupted continues as another call, with the same
  // arguments.
  const bool is_futex = number == SYS_futex || number == SYS_restart_syscall;
  if (!is_futex && number != kFutexWaitv && number != kFutexWait) return;
  std::uint64_t arguments[6] = {};
  for (std::uint64_t& argument : arguments) argument = std::strtoull(at, &at, 16);
  if (number == kFutexWaitv) return add_vector(arguments[0], arguments[1]);
  const auto flags = static_cast<int>(number == kFutexWait ? arguments[3] : arguments[1]);
  if ((flags & FUTEX_PRIVATE_FLAG) != 0) return;
  const int operation = number == kFutexWait ? FUTEX_WAIT : flags & FUTEX_CMD_MASK;
  if (!sleeps_at_first_address(operation)) return;
  add(arguments[0]);
  if (operation == FUTEX_WAIT_REQUEUE_PI) add(arguments[4]);
}

/// Without descriptors or memory, the process cannot prove that no thread sleeps.
void SharedFutexSleepers::note_failure(int error) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM) too_many_ = true;
}

void SharedFutexSleepers::add_vector(std::uint64_t waiters, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = waiters + i * sizeof(Waiter);
    // Watched memory may be missing at this moment, and must not be touched.
    const std::uint64_t last = at + sizeof(Waiter) - 1;
    if (is_watched(at) || is_watched(last)) {
      add(at);
      add(last);
      continue;
    }
    Waiter waiter{};
    const iovec here{&waiter, sizeof waiter};
    const iovec there{std::bit_cast<void*>(at), sizeof waiter};
    if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof waiter) return;
    if ((waiter.flags & FUTEX_PRIVATE_FLAG) == 0) add(waiter.addr);
  }
}

void SharedFutexSleepers::add(std::uint64_t addr) {
  if (only_watched_ && !is_watched(addr)) return;
  if (count_ == kMost)
    too_many_ = true;
  else
    addresses_[count_++] = addr;
}

}  // namespace softhca::provider
