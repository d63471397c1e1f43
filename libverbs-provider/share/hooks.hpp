// SPDX-License-Identifier: Apache-2.0

// The provider's hooks for the preload library. They handle functions of the C library that have
// another effect on memory shared with the daemon than on private memory, which the application
// expects.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::provider {

struct MemoryHooks {
  /// Called after madvise, which returned `result`. Returns the result for the caller, and sets
  /// errno.
  int (*advised)(void* addr, std::size_t length, int advice, int result);

  struct Remap {
    void* addr;
    std::size_t old_length;
    std::size_t new_length;
    int flags;
    void* new_addr;  ///< with MREMAP_FIXED
  };
  /// Called instead of mremap, with its result and errno. False: the memory is not the provider's.
  bool (*remap)(const Remap& request, void** result);

  /// Counts how often pages were taken away and put back for an exchange; odd while they are away.
  std::uint32_t (*moves)();
};

/// Exported by the preload library; called when memory is first shared.
using SetMemoryHooks = void (*)(const MemoryHooks* hooks);
inline constexpr char kSetMemoryHooks[] = "softhca_preload_set_memory_hooks";

}  // namespace softhca::provider
