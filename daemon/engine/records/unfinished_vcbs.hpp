// SPDX-License-Identifier: Apache-2.0

// VCBs of a session that were handed over before their commands were complete.
//
// A process that writes a command piece by piece (C2) takes less than a microsecond, so each scan
// checks such a VCB at first. A VCB that is not finished after one to two microseconds rests: its
// process has lost the processor, or will not finish it. The engine checks it again after
// increasing intervals. Until then it does not count as work and does not keep the engine awake.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::engine {

/// Bit i of a set stands for VCB i of the session. Sets are disjoint.
class UnfinishedVcbs {
 public:
  static constexpr Duration kGeneration = std::chrono::microseconds(1);
  static constexpr Duration kFirstRest = std::chrono::microseconds(1);
  static constexpr Duration kLastRest = std::chrono::milliseconds(1);

  bool any() const { return (young_ | old_ | stale_ | again_ | resting_) != 0; }
  /// Returns the VCBs that rest: a session with no others may be parked.
  std::uint64_t resting() const { return resting_; }
  /// Returns the VCBs that rest, and those that this scan has checked.
  std::uint64_t not_now() const { return resting_ | seen_; }

  /// Begins a scan. `pending`: the VCBs that were handed over to the engine.
  void begin(std::uint64_t pending, Time now) {
    for (std::uint64_t* set : {&young_, &old_, &stale_, &again_, &resting_}) *set &= pending;
    seen_ = 0;
    if (now >= due_) look_again();
    if (now < generation_end_) return;
    generation_end_ = now + kGeneration;
    stale_ |= old_;
    old_ = young_;
    young_ = 0;
  }
  /// Records that the scan found this VCB incomplete.
  void not_whole(std::uint32_t vcb) {
    const std::uint64_t bit = std::uint64_t{1} << vcb;
    seen_ |= bit;
    if (((again_ | stale_) & bit) == 0) {
      young_ |= bit & ~old_;
      return;
    }
    if ((stale_ & bit) != 0) rest_ = {};
    stale_ &= ~bit;
    again_ &= ~bit;
    resting_ |= bit;
    more_rest_ = true;
  }
  /// Records that the scan found this VCB complete.
  void whole(std::uint32_t vcb) {
    const std::uint64_t others = ~(std::uint64_t{1} << vcb);
    for (std::uint64_t* set : {&young_, &old_, &stale_, &again_, &seen_}) *set &= others;
  }
  /// Ends the scan.
  void end(Time now) {
    if (!more_rest_) return;
    more_rest_ = false;
    rest_ = std::clamp(2 * rest_, kFirstRest, kLastRest);
    due_ = now + rest_;
  }
  /// Makes the next scan check all VCBs that rest.
  void look_again() {
    again_ |= resting_;
    resting_ = 0;
  }

 private:
  std::uint64_t young_ = 0, old_ = 0;  ///< first seen in this generation, and in the one before
  std::uint64_t stale_ = 0;            ///< older: rests after the next check
  std::uint64_t again_ = 0;            ///< have rested and are to be checked
  std::uint64_t resting_ = 0;
  std::uint64_t seen_ = 0;  ///< checked in this scan
  Time generation_end_{}, due_{};
  Duration rest_{};  ///< the last interval
  bool more_rest_ = false;
};

}  // namespace softhca::engine
