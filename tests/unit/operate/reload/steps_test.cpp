// SPDX-License-Identifier: Apache-2.0

// All steps of a change are made, or none.
#include "daemon/operate/reload/steps.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace softhca::control {
namespace {

using Events = std::vector<std::string>;

std::vector<Step> five(Events& events, int failing) {
  std::vector<Step> steps;
  for (int i = 0; i < 5; ++i) {
    const std::string name = std::to_string(i);
    steps.push_back({name,
                     [&events, name, fails = i == failing]() -> Outcome {
                       events.push_back("apply " + name);
                       if (fails) return Error{"step " + name + " fails", 1};
                       return {};
                     },
                     [&events, name] { events.push_back("undo " + name); }});
  }
  return steps;
}

TEST(Steps, AreMadeInTheirOrder) {
  Events events;
  EXPECT_TRUE(apply(five(events, -1)));
  EXPECT_EQ(events, (Events{"apply 0", "apply 1", "apply 2", "apply 3", "apply 4"}));
  EXPECT_TRUE(apply({}));
}

TEST(Steps, AreUndoneTheLastOneFirst) {
  for (int failing = 0; failing < 5; ++failing) {
    Events events, expected;
    const Outcome outcome = apply(five(events, failing));
    ASSERT_FALSE(outcome);
    const std::string name = std::to_string(failing);
    EXPECT_EQ(outcome.error().message, name + ": step " + name + " fails");
    EXPECT_EQ(outcome.error().code, 1);
    for (int i = 0; i <= failing; ++i) expected.push_back("apply " + std::to_string(i));
    for (int i = failing; i >= 0; --i) expected.push_back("undo " + std::to_string(i));
    EXPECT_EQ(events, expected);
  }
}

TEST(Steps, MayHaveNothingToUndo) {
  Events events;
  auto steps = five(events, 2);
  steps[1].undo = {};
  EXPECT_FALSE(apply(steps));
  EXPECT_EQ(events, (Events{"apply 0", "apply 1", "apply 2", "undo 2", "undo 0"}));
}

}  // namespace
}  // namespace softhca::control
