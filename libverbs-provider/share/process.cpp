// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <new>

#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/ours.hpp"

namespace softhca::provider {
namespace {

pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<std::uint32_t> generation{0};
std::atomic<std::uint32_t> page_moves{0};

// The child copies the memory before its fork() returns, and the parent's fork() returns after
// that. So the child has the memory as of the fork. (The kernel does the same, by eager copies, for
// memory pinned by an RDMA device.) The pipe notifies the parent; -1: there is nothing to copy.
int fork_pipe[2] = {-1, -1};

// Notifies the parent if the process has no descriptors left for a pipe: memory shared with the
// child. It does not show that a child has died, so the parent waits for a limited time.
std::atomic<bool>* child_has_copied = nullptr;
bool waits_for_page = false;

void map_page() {
  void* page = ::mmap(nullptr, sizeof *child_has_copied, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  child_has_copied = page == MAP_FAILED ? nullptr : new (page) std::atomic<bool>(false);
}

void wait_for_page() {
  constexpr timespec kStep{0, 100'000};
  constexpr int kSteps = 100'000;  // 10 s and more
  siginfo_t child;
  for (int i = 0; i < kSteps && !child_has_copied->load(); ++i) {
    const bool has_none = ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0;
    if (has_none && errno == ECHILD) return;  // fork() has failed
    ::nanosleep(&kStep, nullptr);
  }
}

void before_fork() {
  pthread_mutex_lock(&process_mutex);
  fork_pipe[0] = fork_pipe[1] = -1;
  if (MemfdTable::instance().empty()) return;
  if (::pipe2(fork_pipe, O_CLOEXEC) == 0) return;
  fork_pipe[0] = fork_pipe[1] = -1;
  waits_for_page = child_has_copied != nullptr;
  if (waits_for_page) child_has_copied->store(false);
}

void after_fork_in_parent() {
  if (fork_pipe[0] >= 0) {
    ::close(fork_pipe[1]);
    char done;
    while (::read(fork_pipe[0], &done, 1) < 0 && errno == EINTR) {
    }
    ::close(fork_pipe[0]);
  }
  if (waits_for_page) wait_for_page();
  waits_for_page = false;
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

bool transfer(ssize_t (*call)(int, char*, std::size_t, off_t), int fd, char* addr,
              std::size_t length) {
  for (std::size_t done = 0; done < length;) {
    const ssize_t more = call(fd, addr + done, length - done, static_cast<off_t>(done));
    if (more > 0)
      done += static_cast<std::size_t>(more);
    else if (more == 0 || errno != EINTR)
      return false;
  }
  return true;
}

/// As copy_privately(), through a file, for a process that cannot have more mappings.
bool copy_by_file(const Mapping& mapping) {
  auto* addr = reinterpret_cast<char*>(mapping.begin);
  const std::size_t length = mapping.end - mapping.begin;
  const int fd = ::memfd_create("softhca-copy", MFD_CLOEXEC);
  if (fd < 0) return false;
  const auto write = [](int file, char* from, std::size_t bytes, off_t at) {
    return ::pwrite(file, from, bytes, at);
  };
  const auto read = [](int file, char* to, std::size_t bytes, off_t at) {
    return ::pread(file, to, bytes, at);
  };
  const bool copied = (mapping.readable || ::mprotect(addr, length, PROT_READ) == 0) &&
                      transfer(write, fd, addr, length) &&
                      ::mmap(addr, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED &&
                      transfer(read, fd, addr, length) &&
                      ::mprotect(addr, length, protection_of(mapping)) == 0;
  ::close(fd);
  return copied;
}

/// Empties the parts that children should find empty. REQUIRES: the memory is private already.
void wipe_parts(const Mapping& mapping) {
  const MemfdTable& memfds = MemfdTable::instance();
  memfds.for_each_part(mapping, [&](const MemfdPart& part) {
    const std::uint64_t end = part.offset + (part.end - part.begin);
    memfds.wiped().for_each(
        part.place, part.offset, end, [&](std::uint64_t first, std::uint64_t last) {
          auto* addr = reinterpret_cast<char*>(part.begin + (first - part.offset));
          // Children of this child find them empty, too.
          for (const int advice : {MADV_DONTNEED, MADV_WIPEONFORK})
            KernelCalls::real().advise(addr, last - first, advice);
        });
  });
}

/// Raises the limit of descriptors, because the copies need one or two and the process may have
/// none left. The child has one thread here, so the change has no other effect.
class DescriptorsRaised {
 public:
  DescriptorsRaised() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
    const rlimit most{before_.rlim_max, before_.rlim_max};
    raised_ = ::setrlimit(RLIMIT_NOFILE, &most) == 0;
  }
  ~DescriptorsRaised() {
    if (raised_) ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  DescriptorsRaised(const DescriptorsRaised&) = delete;
  DescriptorsRaised& operator=(const DescriptorsRaised&) = delete;

 private:
  rlimit before_{};
  bool raised_ = false;
};

/// Unmaps memory that cannot be copied for lack of memory: a program that stops is better than two
/// programs that share a heap unknowingly.
void make_all_private() {
  for_each_of_ours(0, ~std::uint64_t{0}, [](const Mapping& mapping) {
    if (copy_privately(mapping) || copy_by_file(mapping)) return wipe_parts(mapping);
    ::munmap(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin);
  });
}

void after_fork_in_child() {
  if (!MemfdTable::instance().empty()) {
    const DescriptorsRaised raised;
    make_all_private();
    MemfdTable::instance().clear();
  }
  if (fork_pipe[0] >= 0) {
    ::close(fork_pipe[0]);
    ::close(fork_pipe[1]);
  }
  if (child_has_copied != nullptr) {
    if (waits_for_page) child_has_copied->store(true);  // the next fork may already use it
    ::munmap(child_has_copied, sizeof *child_has_copied);
    map_page();  // for children of this child
  }
  waits_for_page = false;
  generation.fetch_add(1, std::memory_order_relaxed);
  pthread_mutex_unlock(&process_mutex);
}

}  // namespace

ProcessLock::ProcessLock() { pthread_mutex_lock(&process_mutex); }
ProcessLock::~ProcessLock() { pthread_mutex_unlock(&process_mutex); }

PagesAway::PagesAway() { page_moves.fetch_add(1); }
PagesAway::~PagesAway() { page_moves.fetch_add(1); }

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

bool install_process_handlers() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static bool installed = false;
  pthread_once(&once, [] {
    map_page();
    installed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    static constexpr MemoryHooks kHooks{after_advice, remap, [] { return page_moves.load(); }};
    auto* set_hooks = reinterpret_cast<SetMemoryHooks>(::dlsym(RTLD_DEFAULT, kSetMemoryHooks));
    if (set_hooks != nullptr) set_hooks(&kHooks);
  });
  return installed;
}

}  // namespace softhca::provider
