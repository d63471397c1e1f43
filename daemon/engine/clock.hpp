// The time of the poll step at hand. The engine sets it, its parts read it.
#pragma once

#include "daemon/base/time.hpp"

namespace softhca::engine {

struct StepClock {
  Time now{};
};

}  // namespace softhca::engine
