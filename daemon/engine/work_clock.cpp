#include "daemon/engine/work_clock.hpp"

#include <time.h>

#include <algorithm>

namespace softhca::engine {
namespace {

constexpr Duration kFirstCalibration = std::chrono::microseconds(200);
constexpr Duration kCalibrationInterval = std::chrono::milliseconds(100);

Duration read(clockid_t clock) {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

WorkClock::WorkClock() : first_(read(CLOCK_MONOTONIC)), first_ticks_(read_ticks()) {
  Time now = first_;
  while (now - first_ < kFirstCalibration) now = Time(read(CLOCK_MONOTONIC));
  calibrate(now);
}

WorkClock::WorkClock(const std::uint64_t& given) : given_(&given), checked_(kNever) {}

std::uint64_t WorkClock::read_system_clock() {
  return static_cast<std::uint64_t>(read(CLOCK_MONOTONIC).count());
}

void WorkClock::check(Time now) {
  checked_ = now;
  thread_time_ = read(CLOCK_THREAD_CPUTIME_ID);
  if (now >= next_calibration_) calibrate(Time(read(CLOCK_MONOTONIC)));
}

/// The longer ago the first reading is, the more precise is the quotient.
void WorkClock::calibrate(Time now) {
  const std::uint64_t ticks = read_ticks() - first_ticks_;
  const auto units = static_cast<unsigned __int128>((now - first_).count()) * kUnitsPerNanosecond;
  scale_ = static_cast<std::uint64_t>((units << kScaleBits) / std::max<std::uint64_t>(ticks, 1));
  next_calibration_ = now + kCalibrationInterval;
}

std::uint64_t WorkClock::long_lap(std::uint64_t units) {
  if (given_ != nullptr) return units;
  const Duration thread_time = read(CLOCK_THREAD_CPUTIME_ID);
  const auto worked = static_cast<std::uint64_t>((thread_time - thread_time_).count());
  thread_time_ = thread_time;
  return std::min(units, worked * kUnitsPerNanosecond);
}

}  // namespace softhca::engine
