// SPDX-License-Identifier: Apache-2.0

// A thread's sign of life, in memory that its supervisor reads from another process.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace softhca {

struct alignas(64) Pulse {
  std::atomic<std::uint64_t> turns;  ///< of the thread's loop; the thread alone adds to it
  std::atomic<std::int32_t> thread;  ///< its thread id; 0: it does not run
  /// 1: it sleeps until there is something to do, and may do so for any time.
  std::atomic<std::uint32_t> asleep;

  /// The calling thread begins to give signs of life.
  void begin() { thread.store(static_cast<std::int32_t>(::syscall(SYS_gettid))); }
  void end() { thread.store(0); }
  void beat() { turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void fall_asleep() { asleep.store(1, std::memory_order_relaxed); }
  void wake_up() {
    beat();
    asleep.store(0, std::memory_order_relaxed);
  }
};

}  // namespace softhca
