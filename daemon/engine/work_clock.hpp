// How long the engine's thread works on something. Costs that were written down once hold for one
// machine and for the usual case; what is cheap for most may be dear for one (memory that is read
// by system calls, a look-up that misses the cache), so tenants share the engine by the clock.
#pragma once

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/engine/costs.hpp"

namespace softhca::engine {

/// Time of the thread that calls it. When the processor was taken away meanwhile, that counts for
/// kCheck at most.
class WorkClock {
 public:
  /// Waits for a fraction of a millisecond, to learn how fast the processor counts.
  WorkClock();
  /// Time is what `given` says, in cost units. It outlives the clock.
  explicit WorkClock(const std::uint64_t& given);

  /// A poll step begins: the time before it was for nobody.
  void begin_step(Time now) {
    if (now - checked_ >= kCheck) check(now);
    last_ = read_ticks();
  }
  /// Processor time since this was called last, or since the step began, in cost units (costs.hpp).
  std::uint64_t lap() {
    const std::uint64_t now = read_ticks(), ticks = now - last_;
    last_ = now;
    const auto units =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(ticks) * scale_ >> kScaleBits);
    if (units > kLong.count() * kUnitsPerNanosecond) return long_lap(units);
    slept = {};
    return units;
  }
  /// The thread that calls this has slept for so long, for the work at hand: that counts as worked.
  static void count_wait(Duration waited) { slept += waited; }

 private:
  /// Longer laps are compared with the processor time of the thread, which takes a system call to
  /// learn. The scheduler of the machine takes the processor away for much longer.
  static constexpr Duration kLong = std::chrono::microseconds(20);
  static constexpr Duration kCheck = std::chrono::microseconds(100);
  static constexpr unsigned kScaleBits = 32;

  /// The counter of the processor takes half as long to read as the clock of the system.
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
  std::uint64_t scale_ = std::uint64_t{1} << kScaleBits;  ///< cost units of a tick, of fixed point
  Time checked_{};                                        ///< when the thread's time was read last
  Duration thread_time_{};                                ///< what it was then
  Time first_{};                                          ///< when calibration began
  std::uint64_t first_ticks_ = 0;
  Time next_calibration_ = kNever;
};

}  // namespace softhca::engine
