// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/worker.hpp"

#include <functional>

namespace softhca::stress {
namespace {

/// For itself, so that a round does not depend on how those before it went.
std::uint64_t seed_of(std::uint64_t seed, const std::string& name, std::uint64_t round) {
  for (const char letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
  return (seed << 32) + round;
}

}  // namespace

void Worker::run(const std::string& name, std::uint64_t seed, const std::atomic<bool>& over) {
  here().worker = name;
  while (!over) {
    random_ = Random(seed_of(seed, name, ++here().round));
    try {
      round();
    } catch (const Fault& fault) {
      complain(fault.what(), fault.detail());
      recover();
    }
  }
  count("rounds of " + name, here().round);
}

}  // namespace softhca::stress
