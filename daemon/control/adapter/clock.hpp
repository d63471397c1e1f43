// The control thread's clock: the time line of the engine.
#pragma once

#include <chrono>

#include "daemon/base/time.hpp"

namespace softhca::control {

/// CLOCK_MONOTONIC, as the engine's worker reads it.
inline Time now() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace softhca::control
