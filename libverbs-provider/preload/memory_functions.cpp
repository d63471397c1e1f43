// SPDX-License-Identifier: Apache-2.0

// madvise, process_madvise and mremap, for memory that the provider shares with the daemon in
// place. The application expects private memory. Where the kernel treats shared memory differently,
// the provider compensates for it by its hooks (libverbs-provider/share/hooks.hpp).
//
// Also calls that transfer data to or from memory. In a process without privileges they fail with
// EFAULT, or end early, while the provider has taken pages away to share them. This library repeats
// or continues them.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/share/hooks.hpp"

namespace {

using softhca::provider::MemoryHooks;

std::atomic<const MemoryHooks*> hooks{nullptr};

const MemoryHooks* memory_hooks() { return hooks.load(std::memory_order_acquire); }

/// True if the pidfd refers to this process, by the "Pid:" line of /proc/self/fdinfo/N. The special
/// values for the own process need no file (Linux 6.14).
bool is_own_process(int pidfd) {
  constexpr int kSelfThread = -10000, kSelf = -10001;
  if (pidfd == kSelfThread || pidfd == kSelf) return true;
  char text[512] = "/proc/self/fdinfo/";
  if (pidfd < 0) return false;
  char digits[12];
  char* first = digits + sizeof digits - 1;
  *first = '\0';
  for (unsigned rest = static_cast<unsigned>(pidfd); first == digits + sizeof digits - 1 || rest;
       rest /= 10)
    *--first = static_cast<char>('0' + rest % 10);
  std::strcat(text, first);
  const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  text[got > 0 ? got : 0] = '\0';
  const char* pid = std::strstr(text, "\nPid:");
  return pid != nullptr && std::atol(pid + 5) == ::getpid();
}

}  // namespace

/// Called by the provider when it first shares memory.
extern "C" SOFTHCA_INTERPOSE void softhca_preload_set_memory_hooks(const MemoryHooks* given);
extern "C" void softhca_preload_set_memory_hooks(const MemoryHooks* given) {
  hooks.store(given, std::memory_order_release);
}

extern "C" SOFTHCA_INTERPOSE int softhca_madvise(void*, std::size_t, int) asm("madvise");
extern "C" int softhca_madvise(void* addr, std::size_t length, int advice) {
  static constinit softhca::preload::Next<int(void*, std::size_t, int)> next{"madvise"};
  const int result = next.get()(addr, length, advice);
  const MemoryHooks* with = memory_hooks();
  return with != nullptr ? with->advised(addr, length, advice, result) : result;
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_process_madvise(int, const iovec*, std::size_t, int,
                                                             unsigned) asm("process_madvise");
extern "C" ssize_t softhca_process_madvise(int pidfd, const iovec* ranges, std::size_t count,
                                           int advice, unsigned flags) {
  const auto advise = [&](std::size_t n) {
    return ::syscall(SYS_process_madvise, pidfd, ranges, n, advice, flags);
  };
  const int error = errno;
  if (memory_hooks() == nullptr || !is_own_process(pidfd)) {
    errno = error;
    return advise(count);
  }
  // Checks that the kernel supports the call, before the parts are advised separately.
  if (advise(0) != 0) return -1;
  ssize_t done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (softhca_madvise(ranges[i].iov_base, ranges[i].iov_len, advice) != 0)
      return done != 0 ? done : -1;
    done += static_cast<ssize_t>(ranges[i].iov_len);
  }
  errno = error;
  return done;
}

extern "C" SOFTHCA_INTERPOSE void* softhca_mremap(void*, std::size_t, std::size_t, int,
                                                  ...) asm("mremap");
extern "C" void* softhca_mremap(void* addr, std::size_t old_length, std::size_t new_length,
                                int flags, ...) {
  static constinit softhca::preload::Next<void*(void*, std::size_t, std::size_t, int, ...)> next{
      "mremap"};
  void* new_addr = nullptr;
  if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0) {
    va_list list;
    va_start(list, flags);
    new_addr = va_arg(list, void*);
    va_end(list);
  }
  void* result = nullptr;
  const MemoryHooks* with = memory_hooks();
  if (with != nullptr && with->remap({addr, old_length, new_length, flags, new_addr}, &result))
    return result;
  return next.get()(addr, old_length, new_length, flags, new_addr);
}

namespace {

/// What is left of a transfer after `done` bytes: the rest of the buffer in which these end, or all
/// buffers from there on.
struct Rest {
  Rest(const iovec* all, int number, std::size_t done) : parts(all), count(number) {
    if (done == 0) return;  // the kernel may still refuse the list
    for (; count > 0 && done >= parts->iov_len; --count) done -= parts++->iov_len;
    if (done == 0) return;
    cut = {static_cast<char*>(parts->iov_base) + done, parts->iov_len - done};
    parts = &cut;
    count = 1;
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

  const iovec* parts;
  int count;
  iovec cut{};
};

std::size_t bytes_of(const iovec* parts, int count) {
  std::size_t sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i].iov_len;
  return sum;
}

/// True if programs rely on whole transfers, as they do with files. Files of the kernel, of which
/// some end early and wait for more, have no size.
bool transfers_whole(int fd) {
  static constinit softhca::preload::Next<int(int, struct stat*)> next{"fstat"};  // ours reads fd
  struct stat file;
  if (next.get()(fd, &file) != 0) return false;
  return (S_ISREG(file.st_mode) && file.st_size > 0) || S_ISBLK(file.st_mode);
}

/// Repeats `transfer` while it fails because pages were away, and continues it in a file if it
/// ended early for that reason. A repeated call loses no data of a file, a pipe or a stream. From
/// an eventfd, a timerfd or a datagram socket, the kernel removes the record before it finds that
/// memory is missing, so that record is lost.
template <class Transfer>
ssize_t with_pages(int fd, const iovec* all, int count, Transfer transfer) {
  const MemoryHooks* with = memory_hooks();
  if (with == nullptr) return transfer(Rest(all, count, 0), 0);
  const int error = errno;
  std::size_t done = 0;
  bool whole = false;
  while (true) {
    const std::uint32_t before = with->moves();
    const ssize_t result = transfer(Rest(all, count, done), static_cast<off_t>(done));
    const bool away = before % 2 != 0 || with->moves() != before;
    if (result < 0 && errno == EFAULT && away) {
      while (with->moves() % 2 != 0) ::sched_yield();
      errno = EFAULT;
      continue;
    }
    if (result < 0 && done == 0) return result;
    done += static_cast<std::size_t>(std::max<ssize_t>(result, 0));
    whole = whole || (away && transfers_whole(fd));
    errno = error;  // which a call that succeeds does not change
    if (result <= 0 || !whole || done == bytes_of(all, count)) return static_cast<ssize_t>(done);
  }
}

template <class Transfer>
ssize_t with_pages(int fd, const void* data, std::size_t bytes, Transfer transfer) {
  const iovec all{const_cast<void*>(data), bytes};
  return with_pages(fd, &all, 1, [&](const Rest& rest, off_t done) {
    return transfer(rest.parts->iov_base, rest.parts->iov_len, done);
  });
}

}  // namespace

#define TRANSFER_FUNCTION(name, parameters, ...)                             \
  extern "C" SOFTHCA_INTERPOSE ssize_t softhca_##name parameters asm(#name); \
  extern "C" ssize_t softhca_##name parameters {                             \
    static constinit softhca::preload::Next<ssize_t parameters> next{#name}; \
    return __VA_ARGS__;                                                      \
  }

/// A function with one buffer. Arguments for the rest of it: `part`, `length`, and `done`, the
/// bytes transferred before.
#define TRANSFER_BUFFER(name, parameters, ...)                                                    \
  TRANSFER_FUNCTION(name, parameters,                                                             \
                    with_pages(fd, data, bytes,                                                   \
                               [&](void* part, std::size_t length, [[maybe_unused]] off_t done) { \
                                 return next.get()(fd, part, length __VA_OPT__(, ) __VA_ARGS__);  \
                               }))
#define TRANSFER_LIST(name, parameters, ...)                                           \
  TRANSFER_FUNCTION(                                                                   \
      name, parameters,                                                                \
      with_pages(fd, list, count, [&](const Rest& rest, [[maybe_unused]] off_t done) { \
        return next.get()(fd, rest.parts, rest.count __VA_OPT__(, ) __VA_ARGS__);      \
      }))

TRANSFER_BUFFER(read, (int fd, void* data, std::size_t bytes))
TRANSFER_BUFFER(__read_chk, (int fd, void* data, std::size_t bytes, std::size_t room),
                room - static_cast<std::size_t>(done))
TRANSFER_BUFFER(pread, (int fd, void* data, std::size_t bytes, off_t at), at + done)
TRANSFER_BUFFER(pread64, (int fd, void* data, std::size_t bytes, off64_t at), at + done)
TRANSFER_BUFFER(__pread_chk, (int fd, void* data, std::size_t bytes, off_t at, std::size_t room),
                at + done, room - static_cast<std::size_t>(done))
TRANSFER_BUFFER(__pread64_chk,
                (int fd, void* data, std::size_t bytes, off64_t at, std::size_t room), at + done,
                room - static_cast<std::size_t>(done))
TRANSFER_LIST(readv, (int fd, const iovec* list, int count))
TRANSFER_LIST(preadv, (int fd, const iovec* list, int count, off_t at), at + done)
TRANSFER_LIST(preadv64, (int fd, const iovec* list, int count, off64_t at), at + done)
TRANSFER_BUFFER(write, (int fd, const void* data, std::size_t bytes))
TRANSFER_BUFFER(pwrite, (int fd, const void* data, std::size_t bytes, off_t at), at + done)
TRANSFER_BUFFER(pwrite64, (int fd, const void* data, std::size_t bytes, off64_t at), at + done)
TRANSFER_LIST(writev, (int fd, const iovec* list, int count))
TRANSFER_LIST(pwritev, (int fd, const iovec* list, int count, off_t at), at + done)
TRANSFER_LIST(pwritev64, (int fd, const iovec* list, int count, off64_t at), at + done)
