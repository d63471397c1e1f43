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
#include "libverbs-provider/share/maps.hpp"
#include "libverbs-provider/share/memfds.hpp"

namespace softhca::provider {
namespace {

constexpr std::uint64_t kWholeAddressSpace = ~std::uint64_t{0};

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

void after_fork_in_child() {
  if (!MemfdTable::instance().empty()) {
    make_private(0, kWholeAddressSpace);
    MemfdTable::instance().clear();
  }
  if (fork_pipe[0] >= 0) {
    ::close(fork_pipe[0]);
    ::close(fork_pipe[1]);
  }
  generation.fetch_add(1, std::memory_order_relaxed);
  pthread_mutex_unlock(&process_mutex);
}

int protection_of(const Mapping& mapping) {
  return (mapping.readable ? PROT_READ : 0) | (mapping.writable ? PROT_WRITE : 0) |
         (mapping.executable ? PROT_EXEC : 0);
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

/// The parts of our memfds' mappings within a range, a few at a time: they are changed while the
/// kernel's list is not being read.
struct Batch {
  static constexpr std::size_t kMost = 32;
  Mapping mappings[kMost];
  std::size_t count = 0;
};

void collect(std::uint64_t addr, std::uint64_t end, Batch& batch) {
  MapsReader maps(addr);
  Mapping mapping;
  batch.count = 0;
  while (batch.count < Batch::kMost && maps.next(mapping)) {
    if (mapping.begin >= end) return;
    if (!MemfdTable::instance().contains(mapping)) continue;
    mapping.begin = std::max(mapping.begin, addr);
    mapping.end = std::min(mapping.end, end);
    batch.mappings[batch.count++] = mapping;
  }
}

template <typename Visit>
void for_each_of_ours(std::uint64_t addr, std::uint64_t end, Visit visit) {
  Batch batch;
  do {
    collect(addr, end, batch);
    for (std::size_t i = 0; i < batch.count; ++i) {
      visit(batch.mappings[i]);
      addr = batch.mappings[i].end;
    }
  } while (batch.count == Batch::kMost);
}

std::uint64_t page_end(const void* addr, std::size_t length) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (reinterpret_cast<std::uint64_t>(addr) + length + page - 1) / page * page;
}

}  // namespace

ProcessLock::ProcessLock() { pthread_mutex_lock(&process_mutex); }
ProcessLock::~ProcessLock() { pthread_mutex_unlock(&process_mutex); }

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

void make_private(std::uint64_t addr, std::uint64_t length) {
  const std::uint64_t end = length > kWholeAddressSpace - addr ? kWholeAddressSpace : addr + length;
  for_each_of_ours(addr, end, [](const Mapping& mapping) {
    if (copy_privately(mapping)) return;
    ::munmap(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin);
  });
}

/// Makes a part of our memory read as zeros. Pages of registered memory cannot be given back: the
/// daemon has sealed it against holes.
void forget(const Mapping& mapping) {
  auto* addr = reinterpret_cast<char*>(mapping.begin);
  const std::size_t length = mapping.end - mapping.begin;
  if (KernelCalls::real().advise(addr, length, MADV_REMOVE) == 0) return;
  if (!mapping.writable && ::mprotect(addr, length, PROT_READ | PROT_WRITE) != 0) return;
  std::memset(addr, 0, length);
  if (!mapping.writable) ::mprotect(addr, length, protection_of(mapping));
}

void after_dontneed(void* addr, std::size_t length) {
  if (MemfdTable::instance().empty()) return;
  const int error = errno;
  for_each_of_ours(reinterpret_cast<std::uint64_t>(addr), page_end(addr, length), forget);
  errno = error;
}

void before_growth(void* addr, std::size_t length) {
  if (MemfdTable::instance().empty()) return;
  const int error = errno;
  make_private(reinterpret_cast<std::uint64_t>(addr),
               page_end(addr, length) - reinterpret_cast<std::uint64_t>(addr));
  errno = error;
}

void install_process_handlers() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    using SetHooks = void (*)(void (*)(void*, std::size_t), void (*)(void*, std::size_t));
    auto* set_hooks =
        reinterpret_cast<SetHooks>(::dlsym(RTLD_DEFAULT, "softhca_preload_set_memory_hooks"));
    if (set_hooks != nullptr) set_hooks(after_dontneed, before_growth);
  });
}

}  // namespace softhca::provider
