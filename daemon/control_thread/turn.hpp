// SPDX-License-Identifier: Apache-2.0

// A turn of the control thread for work of a size that a tenant has chosen.
#pragma once

#include <chrono>

#include "daemon/base/time.hpp"

namespace softhca::control {

class Turn {
 public:
  /// Work that takes longer continues in the tenant's next turn, behind the requests of others.
  static constexpr Duration kLength = std::chrono::microseconds(500);

  explicit Turn(Duration length = kLength) : until_(Clock::now() + length) {}
  /// Returns an endless turn, for work that has to be done at once.
  static Turn endless() {
    Turn turn;
    turn.until_ = Clock::time_point::max();
    return turn;
  }

  bool is_endless() const { return until_ == Clock::time_point::max(); }
  bool is_over() const { return !is_endless() && Clock::now() >= until_; }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point until_;
};

}  // namespace softhca::control
