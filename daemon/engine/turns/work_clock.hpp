// SPDX-License-Identifier: Apache-2.0

// Measures how long the engine's thread works on something. Fixed cost figures hold for one machine
// and the usual case. The same operation may be expensive for one tenant (memory that is read by
// system calls, a look-up that misses the cache). Tenants therefore share the engine by measured
// time.
#pragma once

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {

/// Measures the time of the calling thread. If the thread loses the processor, that counts for at
/// most kCheck.
class WorkClock {
 public:
  /// Waits for a fraction of a millisecond, to measure the frequency of the tick counter.
  WorkClock();
  /// Uses `given` as the time, in cost units. `given` outlives the clock.
  explicit WorkClock(const std::uint64_t& given);

  /// Begins a poll step. The time before it is charged to no tenant.
  void begin_step(Time now) {
    if (now - checked_ >= kCheck) check(now);
    last_ = read_ticks();
  }
  /// Returns the processor time since the last call, or since the step began, in cost units
  /// (costs.hpp).
  std::uint64_t lap() {
    const std::uint64_t now = read_ticks(), ticks = now - last_;
    last_ = now;
    const auto units =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(ticks) * scale_ >> kScaleBits);
    if (units > kLong.count() * kUnitsPerNanosecond) return long_lap(units);
    slept = {};
    return units;
  }
  /// Counts as work the time that the calling thread has slept for the current work.
  static void count_wait(Duration waited) { slept += waited; }

 private:
  /// Longer laps are compared with the processor time of the thread, which takes a system call to
  /// read. The kernel's scheduler takes the processor away for much longer.
  static constexpr Duration kLong = std::chrono::microseconds(20);
  static constexpr Duration kCheck = std::chrono::microseconds(100);
  static constexpr unsigned kScaleBits = 32;

  /// Returns the tick counter of the processor, which takes half as long to read as the system
  /// clock.
  std::uint64_t read_ticks() const {
    if (given_ != nullptr) return *given_;
#if defined(__x86_64__)
    return __rdtsc();
#else
    return read_system_clock();
#endif
  }
  static std::uint64_t read_system_clock();
  void check(Time now);
  void calibrate(Time now);
  std::uint64_t long_lap(std::uint64_t units);

  static inline thread_local Duration slept{};  ///< since the last lap

  const std::uint64_t* given_ = nullptr;
  std::uint64_t last_ = 0;                                ///< ticks
  std::uint64_t scale_ = std::uint64_t{1} << kScaleBits;  ///< cost units per tick, fixed point
  Time checked_{};                                        ///< when the thread's time was last read
  Duration thread_time_{};                                ///< the thread's time then
  Time first_{};                                          ///< when calibration began
  std::uint64_t first_ticks_ = 0;
  Time next_calibration_ = kNever;
};

}  // namespace softhca::engine
