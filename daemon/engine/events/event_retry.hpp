// SPDX-License-Identifier: Apache-2.0

// When events that found a socket full are tried again: soon, and ever later while the process does
// not read.
#pragma once

#include <algorithm>
#include <cstddef>

#include "daemon/base/time.hpp"

namespace softhca::engine {

class EventRetry {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(1);
  static constexpr Duration kLongest = std::chrono::milliseconds(64);

  Time due() const { return due_; }
  /// Counts in one more event that waits.
  void wait(Time now) { due_ = std::min(due_, now + std::max(interval_, kFirst)); }
  /// To be called when an event was sent that counted as refused when it was tried.
  void went(Time now) {
    interval_ = {};
    if (due_ != kNever) wait(now);
  }
  /// Notes that events which waited were tried again: of `before`, `left` still wait.
  void tried(std::size_t before, std::size_t left, Time now) {
    interval_ = left < before ? kFirst : std::clamp(2 * interval_, kFirst, kLongest);
    due_ = left == 0 ? kNever : now + interval_;
  }

 private:
  Time due_ = kNever;
  Duration interval_{};
};

}  // namespace softhca::engine
