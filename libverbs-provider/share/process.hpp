// What the process does as a whole to memory that is shared with a daemon: fork it, give its
// content up, resize its mapping. For shared mappings the kernel does these things otherwise than
// for the private memory the application believes it has.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace softhca::provider {

/// Held while memory is being replaced and across fork, so that no child is born in the middle.
class ProcessLock {
 public:
  ProcessLock();
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;
};

/// Has children get private copies of shared memory, and (where the preload library is loaded)
/// madvise and mremap behave as for private memory. To be called before the first replacement.
void install_process_handlers();

/// Counts the forks this process is below: a registry of another generation is its parent's.
std::uint32_t fork_generation();

/// Replaces each of our memfds mapped within [addr, addr+length) by private memory of the same
/// content and protection. Nobody may write there meanwhile. Memory that cannot be copied for
/// want of memory is unmapped: a program that stops is better than two that share a heap unawares.
void make_private(std::uint64_t addr, std::uint64_t length);

/// madvise(MADV_DONTNEED) has been applied: our memory in the range shall read as zeros.
void after_dontneed(void* addr, std::size_t length);
/// mremap is about to grow the range, which a memfd cannot follow.
void before_growth(void* addr, std::size_t length);

}  // namespace softhca::provider
