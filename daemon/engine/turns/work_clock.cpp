// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/work_clock.hpp"

#include <algorithm>
#include <utility>

#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {
namespace {

constexpr Duration kFirstCalibration = std::chrono::microseconds(200);
constexpr Duration kCalibrationInterval = std::chrono::milliseconds(100);

}  // namespace

WorkClock::WorkClock() : first_(monotonic_time()), first_ticks_(read_ticks()) {
  Time now = first_;
  while (now - first_ < kFirstCalibration) now = monotonic_time();
  calibrate(now);
}

WorkClock::WorkClock(const std::uint64_t& given) : given_(&given), checked_(kNever) {}

std::uint64_t WorkClock::read_system_clock() {
  return static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC).count());
}

void WorkClock::check(Time now) {
  checked_ = now;
  thread_time_ = read_clock(CLOCK_THREAD_CPUTIME_ID);
  slept = {};
  if (now >= next_calibration_) calibrate(monotonic_time());
}

/// Determines the frequency of the tick counter. The older the first reading, the more precise is
/// the quotient.
void WorkClock::calibrate(Time now) {
  const std::uint64_t ticks = read_ticks() - first_ticks_;
  const auto units = static_cast<unsigned __int128>((now - first_).count()) * kUnitsPerNanosecond;
  scale_ = static_cast<std::uint64_t>((units << kScaleBits) / std::max<std::uint64_t>(ticks, 1));
  next_calibration_ = now + kCalibrationInterval;
}

std::uint64_t WorkClock::long_lap(std::uint64_t units) {
  if (given_ != nullptr) return units;
  const Duration thread_time = read_clock(CLOCK_THREAD_CPUTIME_ID);
  const Duration for_work = std::exchange(slept, Duration::zero());
  const auto worked = static_cast<std::uint64_t>((thread_time - thread_time_ + for_work).count());
  thread_time_ = thread_time;
  return std::min(units, worked * kUnitsPerNanosecond);
}

}  // namespace softhca::engine
