// SPDX-License-Identifier: Apache-2.0

// What all threads share of a device.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/random.hpp"
#include "tests/system/verbs/stress/completions.hpp"
#include "tests/system/verbs/stress/watch.hpp"

namespace softhca::stress {

using sim::Random;

struct Station {
  explicit Station(const Device& opened)
      : device(opened),
        pd(made(ibv_alloc_pd(device.context.get()), "ibv_alloc_pd")),
        watch(device.context.get()) {
    for (int i = 0; i < kSharedQueues; ++i)
      queues.push_back(std::make_unique<Completions>(device, kLeastEntries));
  }

  static constexpr int kSharedQueues = 2;
  /// Room for all that the threads may have under way.
  static constexpr int kLeastEntries = 8192;

  const Device& device;
  Domain pd;
  Watch watch;
  std::vector<std::unique_ptr<Completions>> queues;
};

/// Where connections begin and end: twice the same, or one of two hosts each.
struct Stage {
  Station& from;
  Station& to;
  bool lossy;  ///< the path between them loses packets
};

}  // namespace softhca::stress
