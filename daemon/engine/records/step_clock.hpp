// SPDX-License-Identifier: Apache-2.0

// The time of the current poll step, and what the engine works on in it. The engine sets the time;
// its parts read it, and say what they work on.
#pragma once

#include "daemon/base/pulse.hpp"
#include "daemon/base/time.hpp"

namespace softhca::engine {

struct StepClock {
  Time now{};
  /// Reads the time within the step, on the same time line; null: exact() returns `now`.
  Time (*read)() = nullptr;
  Pulse* pulse = nullptr;  ///< null: what the engine works on is not told

  Time exact() const { return read == nullptr ? now : read(); }
  void work_on(Subject subject) const {
    if (pulse != nullptr) pulse->work_on(subject);
  }
};

}  // namespace softhca::engine
