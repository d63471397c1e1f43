// SPDX-License-Identifier: Apache-2.0

// Tells from another process if a thread hangs.
//
// A thread that makes no turns need not hang: the processor may be busy, its cgroup may have used
// up its quota, the machine may have been suspended. So time is counted in ticks that the watching
// process itself got, and a thread that could run counts by the processor time that it had.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "daemon/base/pulse.hpp"

namespace softhca::keeper {

inline constexpr std::chrono::milliseconds kTick{50};

class ThreadWatch {
 public:
  /// `ticks`: how many pass without a turn until the thread hangs.
  ThreadWatch(const Pulse& pulse, unsigned ticks) : pulse_(pulse), limit_(ticks) {}

  /// Call it at each tick. Returns true if the thread of the process hangs: it has made no turn for
  /// the limit, and does not sleep of its own will. Meanwhile it was stopped, waited in a system
  /// call, or had the processor all the time. A wait for a disk may take ten times the limit. A
  /// thread that a debugger holds does not hang.
  bool hangs(pid_t process);
  void reset() {
    quiet_ = 0;
    last_turn_ = std::chrono::steady_clock::now();
  }
  /// Returns when a tick last saw that the thread makes turns or sleeps.
  std::chrono::steady_clock::time_point last_turn() const { return last_turn_; }

 private:
  const Pulse& pulse_;
  const unsigned limit_;
  std::uint64_t turns_ = 0;  ///< at the last tick
  unsigned quiet_ = 0;       ///< ticks since its last turn
  std::chrono::steady_clock::time_point last_turn_{};
  std::chrono::milliseconds worked_{};  ///< processor time that it had had at its last turn
};

}  // namespace softhca::keeper
