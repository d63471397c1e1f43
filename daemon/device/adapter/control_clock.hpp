// SPDX-License-Identifier: Apache-2.0

// The control thread's clock. It has the time base of the engine.
#pragma once

#include <chrono>

#include "daemon/base/time.hpp"

namespace softhca::control {

/// Returns the time of CLOCK_MONOTONIC, as the engine's worker reads it.
inline Time now() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace softhca::control
