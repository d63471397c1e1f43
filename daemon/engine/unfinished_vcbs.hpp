// VCBs of a session that were handed over before their commands were whole.
//
// A process that writes a command piece by piece (C2) takes less than a microsecond, so such a VCB
// is looked at in each scan at first. One that is not finished after one to two microseconds rests:
// its process has lost the processor, or does not mean to finish it. It is looked at again after
// ever longer times, is no work until then, and keeps nobody awake.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::engine {

/// Bit i of a set: VCB i of the session. Sets are disjoint.
class UnfinishedVcbs {
 public:
  static constexpr Duration kGeneration = std::chrono::microseconds(1);
  static constexpr Duration kFirstRest = std::chrono::microseconds(1);
  static constexpr Duration kLastRest = std::chrono::milliseconds(1);

  bool any() const { return (young_ | old_ | stale_ | again_ | resting_) != 0; }
  /// Those that rest: a session with no others may be parked.
  std::uint64_t resting() const { return resting_; }
  /// Those, and what has been looked at in this scan.
  std::uint64_t not_now() const { return resting_ | seen_; }

  /// A scan begins; `pending` are in the engine's hands.
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
  /// The scan has come to one, and it was not whole.
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
  /// Or it was.
  void whole(std::uint32_t vcb) {
    const std::uint64_t others = ~(std::uint64_t{1} << vcb);
    for (std::uint64_t* set : {&young_, &old_, &stale_, &again_, &seen_}) *set &= others;
  }
  /// The scan has looked at as many as it may.
  void end(Time now) {
    if (!more_rest_) return;
    more_rest_ = false;
    rest_ = std::clamp(2 * rest_, kFirstRest, kLastRest);
    due_ = now + rest_;
  }
  /// All that rest are looked at in the next scan.
  void look_again() {
    again_ |= resting_;
    resting_ = 0;
  }

 private:
  std::uint64_t young_ = 0, old_ = 0;  ///< first seen in this generation, and in the last
  std::uint64_t stale_ = 0;            ///< older: the next look is the last for now
  std::uint64_t again_ = 0;            ///< have rested, and are to be looked at
  std::uint64_t resting_ = 0;
  std::uint64_t seen_ = 0;  ///< in this scan
  Time generation_end_{}, due_{};
  Duration rest_{};  ///< how long, lately
  bool more_rest_ = false;
};

}  // namespace softhca::engine
