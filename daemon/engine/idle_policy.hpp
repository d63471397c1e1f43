// SPDX-License-Identifier: Apache-2.0

// How an engine without work waits. It yields its processor, which takes a microsecond beside
// programs that yield, too. A program that spins keeps the processor for a time slice, which is
// milliseconds. A wake-up, in contrast, preempts it. So beside such a program the engine sleeps, as
// soon as it has no work, and is woken by what comes.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/time.hpp"

namespace softhca::engine {

class IdlePolicy {
 public:
  /// A longer yield gave the processor to a program that did not yield it back.
  static constexpr Duration kLongYield = std::chrono::milliseconds(1);
  /// So many of the last eight do not come by chance.
  static constexpr int kLongYields = 2;
  /// The engine sleeps for so long, and then finds out whether the program still spins. A program
  /// pays a system call for each message to an engine that sleeps.
  static constexpr Duration kSleeping = std::chrono::milliseconds(100);

  /// A yield ended now and took so long.
  void yielded(Time now, Duration took) {
    const bool was_long = took > kLongYield;
    if (was_long) lost_.add(static_cast<std::uint64_t>(took.count()));
    yields_ = static_cast<std::uint8_t>(yields_ << 1 | (was_long ? 1 : 0));
    if (std::popcount(yields_) < kLongYields) return;
    yields_ = 0;
    sleeps_until_ = now + kSleeping;
  }
  /// True: sleep instead of yielding.
  bool sleeps(Time now) const { return now < sleeps_until_; }
  /// Returns the nanoseconds of long yields.
  const Counter& lost() const { return lost_; }

 private:
  std::uint8_t yields_ = 0;  ///< the last eight, the latest in bit 0: it was long
  Time sleeps_until_{};
  Counter lost_;
};

}  // namespace softhca::engine
