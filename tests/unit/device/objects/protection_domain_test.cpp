// SPDX-License-Identifier: Apache-2.0

// Numbers of protection domains.
#include "daemon/device/objects/pd_object.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <unordered_set>

namespace softhca::control {
namespace {

/// Random numbers for this many domains would contain about ten pairs of equal numbers.
TEST(PdNumbers, NoneIsGivenWhileItIsInUse) {
  PdNumbers numbers;
  std::deque<PdObject> domains;
  std::unordered_set<std::uint32_t> given;
  for (int i = 0; i < 300'000; ++i) {
    const std::uint32_t id = domains.emplace_back(numbers).id.value;
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(given.insert(id).second) << id;
  }
}

}  // namespace
}  // namespace softhca::control
