// SPDX-License-Identifier: Apache-2.0

// Adapters are replaced while programs work with them (restart_world.hpp). The programs find every
// byte and every completion, and no error.
#include <gtest/gtest.h>

#include "tests/sim/failure.hpp"
#include "tests/sim/restart_programs.hpp"

namespace softhca::sim {
namespace {

struct Case {
  const char* name;
  RestartOptions options;
  double chance;  ///< of a restart after a step
};

class Restart : public ::testing::TestWithParam<Case> {};

TEST_P(Restart, AtStepBoundaries_NothingIsLostOrRepeated) {
  constexpr std::uint64_t kSeeds = 20;
  constexpr std::uint32_t kOperations = 60;
  constexpr int kMostSteps = 4'000'000;
  unsigned restarts = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    try {
      Programs programs(GetParam().options, seed);
      programs.add_all(kOperations);
      Random& random = programs.random();
      for (int i = 0; !programs.is_done(); ++i) {
        require(i < kMostSteps, "not done after all steps");
        programs.step();
        if (!random.chance(GetParam().chance)) continue;
        ++restarts;
        programs.world().restart(random.below(programs.world().hosts()));
      }
      programs.finish();
    } catch (const Failure& failure) {
      FAIL() << failure.what();
    }
  }
  EXPECT_EQ(restarts != 0, GetParam().chance != 0);
}

INSTANTIATE_TEST_SUITE_P(, Restart,
                         ::testing::Values(Case{"WireWithoutRestart", {.loss = 0.01}, 0},
                                           Case{"LocalWithoutRestart", {.local = true}, 0},
                                           Case{"Wire", {}, 0.01},
                                           Case{"WireWithLoss", {.loss = 0.02}, 0.01},
                                           Case{"Local", {.local = true}, 0.01},
                                           Case{"WireOften", {.loss = 0.005}, 0.1},
                                           Case{"LocalOften", {.local = true}, 0.1}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace softhca::sim
