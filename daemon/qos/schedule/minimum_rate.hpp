// SPDX-License-Identifier: Apache-2.0

// A minimum rate: when the bytes that it guarantees are due.
//
// Each byte is due at a time of its own. A byte that moves puts the next one off by the time that
// it takes at this rate. As long as the next one is due, the holder is behind and goes before
// others. Bytes that it moves in its ordinary turns count as well, so a minimum is a floor and not
// an addition. But no holder is ahead by more than a burst. Otherwise it would have no minimum for
// as long as it once had much.
//
// A holder is idle if it has nothing to send and no command in progress. While it is idle, nothing
// becomes due beyond a burst. A holder that waits for its peer is not idle: the bytes that it could
// not send meanwhile are due when the peer answers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"

namespace softhca::schedule {

class MinimumRate {
 public:
  /// Bytes stay due for so long at most, however long others were served instead. After a pause of
  /// the whole engine, a holder that catches up holds up the others.
  static constexpr Duration kLongestLag = std::chrono::milliseconds(100);

  /// Takes effect at once: nothing is due from before. `per_second` 0: no minimum.
  void set(const Rate& rate, Time now) {
    if (rate == rate_) return;
    rate_ = rate;
    due_ = rested_since_ = now;
  }
  const Rate& rate() const { return rate_; }
  bool given() const { return rate_.per_second != 0; }

  /// True if the holder is behind its minimum.
  bool behind(Time now) const { return given() && due_ <= now; }
  /// Returns when its next byte is due.
  Time due() const { return due_; }

  /// Counts bytes that the holder moved. `before_others`: others waited meanwhile.
  void moved(std::uint64_t bytes, Time now, bool before_others) {
    if (!given()) return;
    due_ = std::max(due_, now - kLongestLag);
    const Time next = due_ + time_of(bytes);
    due_ = before_others ? next : std::max(due_, std::min(next, now + burst_time()));
  }

  /// Begins a time in which the holder is idle.
  void rest(Time now) { rested_since_ = now; }
  /// Ends that time: the holder has something to do.
  void resume(Time now) {
    if (!given()) return;
    const Time within_burst = now - burst_time();
    if (rested_since_ != kNever && due_ < within_burst)
      due_ = std::min(due_ + std::max(now - rested_since_, Duration()), within_burst);
    due_ = std::max(due_, now - kLongestLag);
    rested_since_ = kNever;
  }

 private:
  Duration burst_time() const { return std::min<Duration>(time_of(rate_.burst), kLongestLag); }
  Duration time_of(std::uint64_t bytes) const {
    constexpr double kMost = 3600e9;
    return Duration(static_cast<Duration::rep>(
        std::min(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_.per_second), kMost)));
  }

  Rate rate_;
  Time due_{};
  Time rested_since_{};  ///< kNever: it is not idle
};

}  // namespace softhca::schedule
