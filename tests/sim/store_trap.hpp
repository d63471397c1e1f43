// SPDX-License-Identifier: Apache-2.0

// Ends a call at a store to memory that outlives it, as SIGKILL would end a process there. The
// memory is write-protected; each store faults, is counted, and is let through by a single step of
// the processor. So the code under test has no part in it, and no store is left out. Linux on
// x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace softhca::sim {

class StoreTrap {
 public:
#if defined(__x86_64__)
  static constexpr bool kAvailable = true;
#else
  static constexpr bool kAvailable = false;
#endif

  StoreTrap();
  ~StoreTrap();
  StoreTrap(const StoreTrap&) = delete;
  StoreTrap& operator=(const StoreTrap&) = delete;

  /// Watches whole pages from now on.
  void watch(std::span<std::byte> pages);
  const std::vector<std::span<std::byte>>& watched() const;
  /// Calls `f`. Before each store to the watched memory, calls `ends` with the number of the store
  /// in this call, from 1 on. If that returns true, `f` ends there: objects that it has made are
  /// not destroyed. `ends` may fork. Returns true if `f` was ended.
  bool run(const std::function<void()>& f, const std::function<bool(std::uint64_t)>& ends);
};

}  // namespace softhca::sim
