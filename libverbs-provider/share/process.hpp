// SPDX-License-Identifier: Apache-2.0

// Operations of the process on memory shared with a daemon: fork, giving up content, and resizing a
// mapping. For shared mappings the kernel performs them differently than for the private memory
// that the application expects.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "libverbs-provider/share/hooks.hpp"

namespace softhca::provider {

/// Held while memory is replaced, and across fork, so that a child never starts in the middle of a
/// replacement.
class ProcessLock {
 public:
  ProcessLock();
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;
};

/// Gives children private copies of shared memory and, if the preload library is loaded, makes
/// madvise and mremap behave as for private memory. False: out of memory, so nothing may be
/// replaced.
bool install_process_handlers();

/// Pages may be missing while such an object exists. REQUIRES: process lock; signals are blocked.
class PagesAway {
 public:
  PagesAway();
  ~PagesAway();
  PagesAway(const PagesAway&) = delete;
  PagesAway& operator=(const PagesAway&) = delete;
};

/// Returns how many forks are above this process. A registry with another number is its parent's.
std::uint32_t fork_generation();

// Hooks for the preload library (hooks.hpp).
int after_advice(void* addr, std::size_t length, int advice, int result);
bool remap(const MemoryHooks::Remap& request, void** result);

}  // namespace softhca::provider
