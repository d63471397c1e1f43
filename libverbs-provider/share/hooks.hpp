// What the preload library asks the provider for: functions of the C library whose effect differs
// between shared memory, which the daemon maps too, and the private memory the application takes it
// for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::provider {

struct MemoryHooks {
  /// madvise has returned `result`. Returns what the caller is to get, and sets errno accordingly.
  int (*advised)(void* addr, std::size_t length, int advice, int result);

  struct Remap {
    void* addr;
    std::size_t old_length;
    std::size_t new_length;
    int flags;
    void* new_addr;  ///< with MREMAP_FIXED
  };
  /// Called in place of mremap, with its result and errno. False: the memory is not ours.
  bool (*remap)(const Remap& request, void** result);

  /// How often pages have been taken away and put back for an exchange; odd while they are away.
  std::uint32_t (*moves)();
};

/// Exported by the preload library; called when memory is first shared.
using SetMemoryHooks = void (*)(const MemoryHooks* hooks);
inline constexpr char kSetMemoryHooks[] = "softhca_preload_set_memory_hooks";

}  // namespace softhca::provider
