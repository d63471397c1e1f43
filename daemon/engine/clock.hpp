// The time of the poll step at hand. The engine sets it, its parts read it.
#pragma once

#include "daemon/base/time.hpp"

namespace softhca::engine {

struct StepClock {
  Time now{};
  /// Reads the time within the step, on the same time line; null: it stands still there.
  Time (*read)() = nullptr;

  Time exact() const { return read == nullptr ? now : read(); }
};

}  // namespace softhca::engine
