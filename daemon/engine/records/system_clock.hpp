// SPDX-License-Identifier: Apache-2.0

// The clocks of the machine, for the threads of an engine.
#pragma once

#include <time.h>

#include "daemon/base/time.hpp"

namespace softhca::engine {

inline Duration read_clock(clockid_t clock) {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec);
}

/// Returns the time on the engine's time line.
inline Time monotonic_time() { return Time(read_clock(CLOCK_MONOTONIC)); }

}  // namespace softhca::engine
