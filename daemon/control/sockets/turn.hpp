// A turn of the control thread at work whose size a tenant has chosen.
#pragma once

#include <chrono>

#include "daemon/base/time.hpp"

namespace softhca::control {

class Turn {
 public:
  /// What takes longer goes on in the tenant's next turn, behind the requests of others.
  static constexpr Duration kLength = std::chrono::microseconds(500);

  explicit Turn(Duration length = kLength) : until_(Clock::now() + length) {}
  /// A turn without an end, for what has to be done at once.
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
