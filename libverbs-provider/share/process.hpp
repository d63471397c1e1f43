// What the process does as a whole to memory that is shared with a daemon: fork it, give its
// content up, resize its mapping. The kernel does these things differently for shared mappings than
// for the private memory the application believes it has.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "libverbs-provider/share/hooks.hpp"

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
/// madvise and mremap behave as for private memory. False: it cannot for lack of memory, and
/// nothing must be replaced.
bool install_process_handlers();

/// While one exists pages may be missing. REQUIRES: process lock; signals are blocked.
class PagesAway {
 public:
  PagesAway();
  ~PagesAway();
  PagesAway(const PagesAway&) = delete;
  PagesAway& operator=(const PagesAway&) = delete;
};

/// Counts the forks this process is below: a registry of another generation is its parent's.
std::uint32_t fork_generation();

// The preload library's questions (hooks.hpp).
int after_advice(void* addr, std::size_t length, int advice, int result);
bool remap(const MemoryHooks::Remap& request, void** result);

}  // namespace softhca::provider
