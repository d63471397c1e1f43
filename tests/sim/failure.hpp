// SPDX-License-Identifier: Apache-2.0

// How a check in a simulated world ends the world.
#pragma once

#include <stdexcept>
#include <string>

namespace softhca::sim {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const char* what, std::uint64_t number = 0) {
  if (!condition) throw Failure(std::string(what) + " (" + std::to_string(number) + ")");
}

}  // namespace softhca::sim
