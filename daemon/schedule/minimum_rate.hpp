// A minimum rate: when what it guarantees is due.
//
// Each byte is due at a time of its own; a byte that moves puts the next one off by what it takes
// at this rate. As long as the next one is due, the holder is behind and goes before others. What
// it moves in its ordinary turns counts as well, so a minimum is a floor and not an addition; but
// no holder is ahead by more than a burst, or it would have none for as long as it once had much.
// While it rests, nothing becomes due beyond a burst: it has nothing to send, and no command of it
// is under way. One that waits for its peer does not rest: what it could not send meanwhile is due
// when the peer answers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"

namespace softhca::schedule {

class MinimumRate {
 public:
  /// What is due is kept for so long at most, however long others were served instead: after a
  /// pause of the whole engine, one that catches up holds up the others.
  static constexpr Duration kLongestLag = std::chrono::milliseconds(100);

  /// Takes effect at once: nothing is due from before. `per_second` 0: there is none.
  void set(const Rate& rate, Time now) {
    if (rate == rate_) return;
    rate_ = rate;
    due_ = rested_since_ = now;
  }
  const Rate& rate() const { return rate_; }
  bool given() const { return rate_.per_second != 0; }

  /// Is it behind its minimum?
  bool behind(Time now) const { return given() && due_ <= now; }
  /// When its next byte is due.
  Time due() const { return due_; }

  /// `before_others`: they waited.
  void moved(std::uint64_t bytes, Time now, bool before_others) {
    if (!given()) return;
    due_ = std::max(due_, now - kLongestLag);
    const Time next = due_ + time_of(bytes);
    due_ = before_others ? next : std::max(due_, std::min(next, now + burst_time()));
  }

  /// It has had nothing to do since.
  void rest(Time now) { rested_since_ = now; }
  /// It has something to do.
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
  Time rested_since_{};  ///< kNever: it does not rest
};

}  // namespace softhca::schedule
