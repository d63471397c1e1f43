#include "libverbs-provider/share/process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/ours.hpp"

namespace softhca::provider {
namespace {

pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<std::uint32_t> generation{0};

// The child copies before its fork() returns, and the parent's fork() returns after that, so
// that the child sees the memory as of the fork. (The kernel does the same, copying eagerly, for
// memory pinned by an RDMA device.) The pipe tells the parent; -1 when there is nothing to copy.
int fork_pipe[2] = {-1, -1};

void before_fork() {
  pthread_mutex_lock(&process_mutex);
  fork_pipe[0] = fork_pipe[1] = -1;
  if (MemfdTable::instance().empty()) return;
  if (::pipe2(fork_pipe, O_CLOEXEC) != 0) fork_pipe[0] = fork_pipe[1] = -1;
}

void after_fork_in_parent() {
  if (fork_pipe[0] >= 0) {
    ::close(fork_pipe[1]);
    char done;
    while (::read(fork_pipe[0], &done, 1) < 0 && errno == EINTR) {
    }
    ::close(fork_pipe[0]);
  }
  pthread_mutex_unlock(&process_mutex);
}

bool copy_privately(const Mapping& mapping) {
  auto* addr = reinterpret_cast<char*>(mapping.begin);
  const std::size_t length = mapping.end - mapping.begin;
  void* copy = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  if (mapping.readable || ::mprotect(addr, length, PROT_READ) == 0) {
    std::memcpy(copy, addr, length);
    if (::mprotect(copy, length, protection_of(mapping)) == 0 &&
        KernelCalls::real().move(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, addr) !=
            MAP_FAILED) {
      return true;
    }
  }
  ::munmap(copy, length);
  return false;
}

/// REQUIRES: the memory is private by now.
void wipe_parts(const Mapping& mapping) {
  const MemfdTable& memfds = MemfdTable::instance();
  const std::uint64_t end = mapping.offset + (mapping.end - mapping.begin);
  memfds.wiped().for_each(
      memfds.find(mapping), mapping.offset, end, [&](std::uint64_t first, std::uint64_t last) {
        auto* addr = reinterpret_cast<char*>(mapping.begin + (first - mapping.offset));
        // Its own children's will be empty, too.
        for (const int advice : {MADV_DONTNEED, MADV_WIPEONFORK})
          KernelCalls::real().advise(addr, last - first, advice);
      });
}

/// Memory that cannot be copied for lack of memory is unmapped: a program that stops is better than
/// two that share a heap unawares.
void make_all_private() {
  for_each_of_ours(0, ~std::uint64_t{0}, [](const Mapping& mapping) {
    if (copy_privately(mapping)) return wipe_parts(mapping);
    ::munmap(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin);
  });
}

void after_fork_in_child() {
  if (!MemfdTable::instance().empty()) {
    make_all_private();
    MemfdTable::instance().clear();
  }
  if (fork_pipe[0] >= 0) {
    ::close(fork_pipe[0]);
    ::close(fork_pipe[1]);
  }
  generation.fetch_add(1, std::memory_order_relaxed);
  pthread_mutex_unlock(&process_mutex);
}

}  // namespace

ProcessLock::ProcessLock() { pthread_mutex_lock(&process_mutex); }
ProcessLock::~ProcessLock() { pthread_mutex_unlock(&process_mutex); }

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

void install_process_handlers() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    static constexpr MemoryHooks kHooks{after_advice, remap};
    auto* set_hooks = reinterpret_cast<SetMemoryHooks>(::dlsym(RTLD_DEFAULT, kSetMemoryHooks));
    if (set_hooks != nullptr) set_hooks(&kHooks);
  });
}

}  // namespace softhca::provider
