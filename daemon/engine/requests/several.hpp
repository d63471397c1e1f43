// SPDX-License-Identifier: Apache-2.0

// A request that serves others, as many as fit into a short time.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {

class Engine;

/// Serves requests in their order: at least one, and more of them until kLongest has passed. Their
/// answers are dropped. Returns how many it has served. REQUIRES: there is one.
template <class Request>
struct Several {
  static constexpr Duration kLongest = std::chrono::microseconds(50);

  std::span<Request> requests;

  std::size_t run(Engine& engine) const {
    const Time end = monotonic_time() + kLongest;
    std::size_t done = 0;
    do requests[done].run(engine);
    while (++done < requests.size() && monotonic_time() < end);
    return done;
  }
};

}  // namespace softhca::engine
