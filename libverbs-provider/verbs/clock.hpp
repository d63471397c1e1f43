// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <ctime>

namespace softhca::provider {

/// Returns the time of a clock in nanoseconds.
inline std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace softhca::provider
