// SPDX-License-Identifier: Apache-2.0

// Two adapters joined by an unreliable connection, or by datagrams, one sending to the other.
#pragma once

#include <cstdint>

#include "tests/sim/model.hpp"

namespace softhca::sim {

struct UnreliableSettings {
  Faults faults;
  std::uint32_t mtu = 1024;
  WorkloadLimits limits;
  bool datagrams = false;
  double receive_rate = 1;
  double over_rate = 0;  ///< part of the packets that come too fast
};

UnreliableSettings random_unreliable_settings(Random& random);

/// Throws Failure. Adds what the sides counted to `totals`.
void run_unreliable(const UnreliableSettings& settings, std::uint64_t seed, Counts& totals);

}  // namespace softhca::sim
