// madvise, process_madvise and mremap, for memory that the provider shares with the daemon in
// place. The application expects private memory. Where the kernel treats shared memory differently,
// the provider compensates for it by its hooks (libverbs-provider/share/hooks.hpp).
//
// Also calls that transfer data to or from memory. In a process without privileges they fail with
// EFAULT while the provider has taken pages away to share them, so this library repeats them.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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

/// Repeats `transfer` while it fails because pages were away. A repeated call loses no data of a
/// file, a pipe or a stream. From an eventfd, a timerfd or a datagram socket, the kernel removes
/// the record before it finds that memory is missing, so that record is lost.
template <class Transfer>
ssize_t with_pages(Transfer transfer) {
  const MemoryHooks* with = memory_hooks();
  if (with == nullptr) return transfer();
  while (true) {
    const std::uint32_t before = with->moves();
    const ssize_t result = transfer();
    if (result >= 0 || errno != EFAULT) return result;
    std::uint32_t now = with->moves();
    for (; now % 2 != 0; now = with->moves()) ::sched_yield();
    errno = EFAULT;
    if (now == before) return result;
  }
}

}  // namespace

#define TRANSFER_FUNCTION(name, parameters, ...)                             \
  extern "C" SOFTHCA_INTERPOSE ssize_t softhca_##name parameters asm(#name); \
  extern "C" ssize_t softhca_##name parameters {                             \
    static constinit softhca::preload::Next<ssize_t parameters> next{#name}; \
    return with_pages([&] { return next.get()(__VA_ARGS__); });              \
  }

TRANSFER_FUNCTION(read, (int fd, void* to, std::size_t bytes), fd, to, bytes)
TRANSFER_FUNCTION(__read_chk, (int fd, void* to, std::size_t bytes, std::size_t room), fd, to,
                  bytes, room)
TRANSFER_FUNCTION(pread, (int fd, void* to, std::size_t bytes, off_t at), fd, to, bytes, at)
TRANSFER_FUNCTION(pread64, (int fd, void* to, std::size_t bytes, off64_t at), fd, to, bytes, at)
TRANSFER_FUNCTION(__pread_chk, (int fd, void* to, std::size_t bytes, off_t at, std::size_t room),
                  fd, to, bytes, at, room)
TRANSFER_FUNCTION(__pread64_chk,
                  (int fd, void* to, std::size_t bytes, off64_t at, std::size_t room), fd, to,
                  bytes, at, room)
TRANSFER_FUNCTION(readv, (int fd, const iovec* to, int count), fd, to, count)
TRANSFER_FUNCTION(preadv, (int fd, const iovec* to, int count, off_t at), fd, to, count, at)
TRANSFER_FUNCTION(preadv64, (int fd, const iovec* to, int count, off64_t at), fd, to, count, at)
TRANSFER_FUNCTION(write, (int fd, const void* from, std::size_t bytes), fd, from, bytes)
TRANSFER_FUNCTION(pwrite, (int fd, const void* from, std::size_t bytes, off_t at), fd, from, bytes,
                  at)
TRANSFER_FUNCTION(pwrite64, (int fd, const void* from, std::size_t bytes, off64_t at), fd, from,
                  bytes, at)
TRANSFER_FUNCTION(writev, (int fd, const iovec* from, int count), fd, from, count)
TRANSFER_FUNCTION(pwritev, (int fd, const iovec* from, int count, off_t at), fd, from, count, at)
TRANSFER_FUNCTION(pwritev64, (int fd, const iovec* from, int count, off64_t at), fd, from, count,
                  at)
