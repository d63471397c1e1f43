// SPDX-License-Identifier: Apache-2.0

// Threads of this process that sleep in a futex that processes may share (a semaphore, mutex or
// condition variable made so, or a system call without FUTEX_PRIVATE_FLAG). The kernel identifies
// such a futex by the memory at its address. If other memory replaces it, wake-ups no longer reach
// the sleeper.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::provider {

class SharedFutexSleepers {
 public:
  /// Sets the range for calls of sleeps_in(), which are about parts of [begin, end).
  void watch(std::uint64_t begin, std::uint64_t end);

  /// True if a thread sleeps at an address in [begin, end). Inspects the threads only if one of
  /// them may have fallen asleep since the last time. Allocates nothing. False if the kernel does
  /// not show what threads do.
  bool sleeps_in(std::uint64_t begin, std::uint64_t end);

 private:
  void look();
  void look_at_all();
  void note_failure(int error);
  void look_at(int tasks, const char* thread);
  void add(std::uint64_t addr);
  void add_vector(std::uint64_t waiters, std::uint64_t count);
  bool is_watched(std::uint64_t addr) const { return begin_ <= addr && addr < end_; }

  static constexpr std::size_t kMost = 32;
  bool only_watched_ = false;  ///< there are too many sleepers elsewhere to record them, too
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t addresses_[kMost] = {};
  std::size_t count_ = 0;
  bool too_many_ = false;
  bool looked_ = false;
  long switches_ = 0;  ///< of the other threads, before the last inspection
};

}  // namespace softhca::provider
