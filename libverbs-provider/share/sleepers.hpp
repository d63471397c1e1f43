// Threads of this process that sleep in a futex which processes may share (a semaphore, mutex or
// condition variable made so, or a system call without FUTEX_PRIVATE_FLAG). The kernel knows such a
// futex by what is mapped at its address: a sleeper is not found by those that wake it once other
// memory is there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::provider {

class SharedFutexSleepers {
 public:
  /// From now on sleeps_in() is asked of parts of [begin, end).
  void watch(std::uint64_t begin, std::uint64_t end);

  /// True if a thread sleeps at an address in [begin, end). Looks at the threads only if one of
  /// them may have fallen asleep since it last did. Allocates nothing. Where the kernel does not
  /// show what threads do the answer is false.
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
  bool only_watched_ = false;  ///< there are too many for those elsewhere to be noted, too
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t addresses_[kMost] = {};
  std::size_t count_ = 0;
  bool too_many_ = false;
  bool looked_ = false;
  long switches_ = 0;  ///< of the other threads, before the last look
};

}  // namespace softhca::provider
