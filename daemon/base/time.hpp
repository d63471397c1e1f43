// SPDX-License-Identifier: Apache-2.0

// Time is a parameter: no layer below `engine` reads a clock.
#pragma once

#include <chrono>

namespace softhca {

using Duration = std::chrono::nanoseconds;

/// The time line of an engine. It has no now(): the worker thread reads the machine's clock, and a
/// simulation counts.
struct EngineClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<EngineClock>;
};

using Time = EngineClock::time_point;

/// Later than every deadline.
inline constexpr Time kNever = Time::max();

}  // namespace softhca
