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

/// Packets that may be in flight: slow start, additive increase, multiplicative decrease (RFC
/// 5681). A go-back-N sender sends its whole flight again for one lost packet, so that a smaller
/// flight is both the cure and the lesser harm.
class FlightWindow {
 public:
  /// `limit` >= 1 packets, to which the window doubles in each round trip until something is lost.
  void reset(std::uint32_t limit) {
    limit_ = threshold_ = clip(limit);
    window_ = std::min(kInitial, limit_);
    acknowledged_ = 0;
    recovering_ = counting_ = false;
  }
  void set_limit(std::uint32_t limit) {
    if (threshold_ == limit_) threshold_ = clip(limit);
    limit_ = clip(limit);
    window_ = std::min(window_, limit_);
  }

  std::uint32_t size() const { return window_; }

  /// `packets` more are acknowledged, all before `unacked` now.
  void grow(std::uint32_t packets, Psn unacked) {
    if (recovering_ && !unacked.is_before(recovery_end_)) recovering_ = false;
    if (counting_ && !unacked.is_before(counting_end_)) counting_ = false;
    if (window_ >= limit_) return;
    if (window_ < threshold_) {
      window_ = clip(std::min<std::uint32_t>(window_ + packets, std::min(threshold_, limit_)));
      return;
    }
    acknowledged_ += packets;
    if (acknowledged_ < window_) return;
    acknowledged_ -= std::min<std::uint32_t>(acknowledged_, window_);
    ++window_;
  }

  /// `packets` sent before `sent_end` were lost, and only they are sent again: that costs no more
  /// than they do, so a few in a flight are borne. More of them are a queue that overflows.
  void lose(std::uint32_t packets, Psn sent_end) {
    if (!counting_) {
      counting_ = true;
      counting_end_ = sent_end;
      lost_ = 0;
    }
    lost_ = clip(lost_ + packets);
    if (lost_ * kBorne > window_) shrink(sent_end);
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
    threshold_ = window_ = std::max<std::uint16_t>(window_ / 2, std::min(kFloor, limit_));
  }

 private:
  static constexpr std::uint16_t kFloor = 2;
  /// More than RFC 6928 has of its larger packets: few paths between machines hold fewer.
  static constexpr std::uint16_t kInitial = 32;
  static constexpr std::uint32_t kBorne = 8;  ///< one in so many

  static std::uint16_t clip(std::uint32_t packets) {
    return static_cast<std::uint16_t>(std::min(packets, 0xffffu));
  }

  std::uint16_t limit_ = 1;
  std::uint16_t window_ = 1;
  std::uint16_t threshold_ = 1;     ///< up to which the window grows with each acknowledgement
  std::uint32_t acknowledged_ = 0;  ///< since the window last grew
  bool recovering_ = false;
  bool counting_ = false;
  std::uint16_t lost_ = 0;  ///< of what was sent before `counting_end_`
  Psn recovery_end_;
  Psn counting_end_;
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
  /// Some packets will be sent twice: an answer may take longer for it. A time that is too long is
  /// better than none.
  void distrust() {
    if (smoothed_ != Duration{}) timing_ = false;
  }
  /// The last wait was not long enough.
  void back_off() {
    backoff_ = static_cast<std::uint8_t>(std::min(backoff_ + 1u, kLongestBackoff));
  }

  /// How long before a probe asks for an answer: after two round trips (RFC 8985, 7.2);
  /// Duration::max() while nothing was measured.
  Duration probe_after() const {
    if (smoothed_ == Duration{}) return Duration::max();
    return std::max<Duration>(2 * smoothed_, smoothed_ + 4 * variation_);
  }
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
  std::uint8_t backoff_ = 0;
  Psn psn_;
  Time since_{};
  Duration smoothed_{};
  Duration variation_{};
};

}  // namespace softhca::transport
