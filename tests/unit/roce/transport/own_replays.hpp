// SPDX-License-Identifier: Apache-2.0

// Places of one responder for replayable reads and atomics.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/roce/transport/reliable/replays.hpp"

namespace softhca::transport {

struct OwnReplays {
  ReplayPlaces places() { return {all, &used}; }

  std::vector<Replay> all = std::vector<Replay>(Replays::kMost);
  std::uint8_t used = 0;
};

}  // namespace softhca::transport
