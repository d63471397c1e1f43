// SPDX-License-Identifier: Apache-2.0

// Ends a call at a store to memory that outlives it, as SIGKILL would end a process there. The
// memory is write-protected; each store faults, is counted, and is let through by a single step of
// the processor. So nothing in the code under test knows of it, and every store counts, whoever
// makes it. Linux on x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

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
  /// Calls `f`, and ends it before its store number `end_at` (from 1 on) to the watched memory.
  /// Objects that `f` has made are not destroyed then. Returns true if `f` was ended.
  bool run(std::uint64_t end_at, const std::function<void()>& f);
  /// Returns the number of stores in the calls of run() so far.
  std::uint64_t stores() const;
};

}  // namespace softhca::sim
