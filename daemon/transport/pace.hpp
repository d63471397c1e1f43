// How much a requester has under way, and how long it waits before it takes silence for loss. Both
// go beyond the InfiniBand specification, which leaves them to static attributes, and change
// nothing a peer could object to: fewer packets in flight, and retries before the timeout asks for
// them (docs/decisions.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca::transport {

/// Packets that may be in flight: additive increase, multiplicative decrease (RFC 5681 without slow
/// start: the limit is what a receive ring holds, not what a path of unknown width carries). A
/// go-back-N sender sends its whole flight again for one lost packet, so that a smaller flight is
/// both the cure and the lesser harm.
class FlightWindow {
 public:
  /// `limit` >= 1 packets; the window starts there.
  void reset(std::uint32_t limit) {
    limit_ = window_ = limit;
    acknowledged_ = 0;
    recovering_ = false;
  }
  void set_limit(std::uint32_t limit) {
    limit_ = limit;
    window_ = std::min(window_, limit);
  }

  std::uint32_t size() const { return window_; }

  /// `packets` more are acknowledged, all before `unacked` now.
  void grow(std::uint32_t packets, Psn unacked) {
    if (recovering_ && !unacked.is_before(recovery_end_)) recovering_ = false;
    if (window_ >= limit_) return;
    acknowledged_ += packets;
    if (acknowledged_ < window_) return;
    acknowledged_ -= std::min(acknowledged_, window_);
    ++window_;
  }

  /// A whole timeout has passed without an answer: what was sent again is lost or waits in a queue
  /// that more of it would only make longer. That counts each time.
  void time_out() { recovering_ = false; }

  /// Something sent before `sent_end` was lost. The losses of one flight count once.
  void shrink(Psn sent_end) {
    if (recovering_) return;
    recovering_ = true;
    recovery_end_ = sent_end;
    acknowledged_ = 0;
    window_ = std::max(window_ / 2, std::min(kFloor, limit_));
  }

 private:
  static constexpr std::uint32_t kFloor = 8;

  std::uint32_t limit_ = 1;
  std::uint32_t window_ = 1;
  std::uint32_t acknowledged_ = 0;  ///< since the window last grew
  bool recovering_ = false;
  Psn recovery_end_;
};

/// Round-trip time as measured on packets that were sent once (RFC 6298, Karn's rule), and from it
/// the wait before a retry.
class RoundTrip {
 public:
  void reset() { *this = RoundTrip(); }

  /// A packet that asks for an answer was sent for the first time.
  void sent(Psn psn, Time now) {
    if (timing_) return;
    timing_ = true;
    psn_ = psn;
    since_ = now;
  }
  /// All before `unacked` are acknowledged: progress.
  void acknowledged(Psn unacked, Time now) {
    backoff_ = 0;
    if (!timing_ || !unacked.is_after(psn_)) return;
    timing_ = false;
    sample(now - since_);
  }
  /// Packets will be sent twice, so that an answer would say nothing about its time.
  void discard() { timing_ = false; }
  /// The last wait was not long enough.
  void back_off() { backoff_ = std::min(backoff_ + 1, kLongestBackoff); }

  /// How long to wait for an answer; Duration::max() while nothing was measured.
  Duration rto() const {
    if (smoothed_ == Duration{}) return Duration::max();
    return std::max<Duration>(smoothed_ + 4 * variation_, kShortest) * (1u << backoff_);
  }

 private:
  // Below that lies what a scheduler does to a daemon that shares its core.
  static constexpr Duration kShortest = std::chrono::milliseconds(1);
  static constexpr unsigned kLongestBackoff = 10;

  void sample(Duration measured) {
    if (smoothed_ == Duration{}) {
      smoothed_ = std::max(measured, Duration(1));
      variation_ = measured / 2;
      return;
    }
    const Duration error = measured > smoothed_ ? measured - smoothed_ : smoothed_ - measured;
    variation_ = (3 * variation_ + error) / 4;
    smoothed_ = std::max((7 * smoothed_ + measured) / 8, Duration(1));
  }

  bool timing_ = false;
  Psn psn_;
  Time since_{};
  Duration smoothed_{};
  Duration variation_{};
  unsigned backoff_ = 0;
};

}  // namespace softhca::transport
