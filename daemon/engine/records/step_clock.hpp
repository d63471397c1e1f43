// SPDX-License-Identifier: Apache-2.0

// The time of the current poll step. The engine sets it; its parts read it.
#pragma once

#include "daemon/base/time.hpp"

namespace softhca::engine {

struct StepClock {
  Time now{};
  /// Reads the time within the step, on the same time line; null: exact() returns `now`.
  Time (*read)() = nullptr;

  Time exact() const { return read == nullptr ? now : read(); }
};

}  // namespace softhca::engine
