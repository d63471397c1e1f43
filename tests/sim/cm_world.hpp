// SPDX-License-Identifier: Apache-2.0

// Two connection managers over a bad link: every connect ends established on both ends or over on
// both, and nothing is left in the end.
#pragma once

#include <cstdint>

#include "tests/sim/cm_host.hpp"

namespace softhca::sim {

struct CmSettings {
  Faults faults;
  CmHabits habits;
  std::uint32_t connects = 4;  ///< of each side, some to itself
  std::uint32_t questions = 1;
  Duration begin_within = std::chrono::seconds(5);
  bool restart = false;  ///< one side forgets everything, once
  bool parted = false;   ///< the link is dead for minutes, once
};

CmSettings random_cm_settings(Random& random);

/// Throws Failure. Adds what happened to `counts`.
void run_cm(const CmSettings& settings, std::uint64_t seed, CmCounts& counts);

/// True: everything there is has happened.
bool check_cm_coverage(const CmCounts& counts);

}  // namespace softhca::sim
