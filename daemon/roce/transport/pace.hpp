// SPDX-License-Identifier: Apache-2.0

// How many packets a requester has in flight, and how long it waits before it treats silence as
// loss. Both go beyond the InfiniBand specification, which leaves them to static attributes. A peer
// sees nothing unusual: fewer packets in flight, and retries before the timeout requires them
// (docs/decisions.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/reliability.hpp"

namespace softhca::transport {

/// Round-trip time, measured on packets that were sent once (RFC 6298, Karn's rule), and the wait
/// before a retry derived from it.
class RoundTrip {
 public:
  void reset() { *this = RoundTrip(); }

  /// Starts a measurement: a packet that asks for an answer was sent for the first time.
  void sent(Psn psn, Time now) {
    if (timing_) return;
    timing_ = true;
    psn_ = psn;
    since_ = now;
  }
  /// Records that everything before `unacked` is acknowledged. Only a measured time resets the
  /// back-off: an answer to a packet that was sent twice says nothing about the path.
  void acknowledged(Psn unacked, Time now) {
    if (!timing_ || !unacked.is_after(psn_)) return;
    timing_ = false;
    backoff_ = 0;
    sample(std::clamp(now - since_, Duration(1), kLongest), now);
  }
  /// Drops the measurement, since packets are about to be sent twice: the answer may be delayed or
  /// ambiguous. The first measurement is kept, because a time that is too long is better than none.
  void distrust() {
    if (smoothed_ != Duration{}) timing_ = false;
  }
  /// Doubles the wait after it was too short.
  void back_off() {
    backoff_ = static_cast<std::uint8_t>(std::min(backoff_ + 1u, kLongestBackoff));
  }

  bool is_known() const { return smoothed_ != Duration{}; }
  Duration smoothed() const { return smoothed_; }  ///< Duration{} unless is_known()
  /// True if at least `queued_packets` of `packets` in flight, or half of them, wait in a queue on
  /// the path. The estimate compares the latest round-trip time with the least one (Fu and Liew,
  /// "TCP Veno: TCP Enhancement for Transmission Over Wireless Access Networks", IEEE JSAC 21(2),
  /// 2003).
  bool is_queued(std::uint32_t packets, const FlightParameters& parameters) const {
    const std::uint32_t least = std::min(least_, least_before_);
    if (latest_ < least + kJitter) return false;
    const std::uint32_t many = std::min<std::uint32_t>(packets, 2u * parameters.queued_packets);
    return std::uint64_t{latest_ - least} * 2 * packets >= std::uint64_t{latest_} * many;
  }

  /// Returns the wait before a probe asks for an answer: two round trips (RFC 8985, 7.2), or
  /// Duration::max() while nothing is measured.
  Duration probe_after() const {
    if (!is_known()) return Duration::max();
    return std::max<Duration>(2 * smoothed_, smoothed_ + 4 * variation_);
  }
  /// Returns the wait for an answer.
  Duration rto() const {
    const Duration one = is_known() ? smoothed_ + 4 * variation_ : kFirst;
    return std::max(one, kShortest) * (1u << backoff_);
  }

 private:
  // A daemon that shares its core may lose this much time to the scheduler.
  static constexpr Duration kShortest = std::chrono::milliseconds(1);
  /// Used while nothing is measured. The 1 s of RFC 6298 is for worldwide paths.
  static constexpr Duration kFirst = std::chrono::milliseconds(8);
  static constexpr unsigned kLongestBackoff = 10;
  static constexpr Duration kLongest = std::chrono::seconds(1);
  /// How long the least time holds, since the path may change; it holds for a second such period
  /// too.
  static constexpr Duration kLeastHolds = std::chrono::seconds(5);
  static constexpr std::uint32_t kJitter = 20'000;  ///< ns; caused by hosts, not by a queue

  void sample(Duration measured, Time now) {
    latest_ = static_cast<std::uint32_t>(measured.count());
    const Duration age = now - least_since_;
    if (age > kLeastHolds || !is_known()) {
      least_before_ = age > 2 * kLeastHolds || !is_known() ? latest_ : least_;
      least_ = latest_;
      least_since_ = now;
    }
    least_ = std::min(least_, latest_);
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
  // In ns.
  std::uint32_t latest_ = 0;
  std::uint32_t least_ = 0;         ///< since least_since_
  std::uint32_t least_before_ = 0;  ///< in the previous period
  Time least_since_{};
};

/// Congestion window: packets that may be in flight. Slow start, additive increase, multiplicative
/// decrease (RFC 5681). A go-back-N sender retransmits the whole window for one lost packet, so a
/// smaller window reduces both the loss and its cost.
///
/// If many flows share a short queue, each gets less than one packet. The window is then below one
/// packet, and one packet is sent in several round trips (Kumar et al., "Swift: Delay is Simple and
/// Effective for Congestion Control in the Datacenter", SIGCOMM 2020, 3.5).
class FlightWindow {
 public:
  /// Resets to `limit` >= 1 packets. The window doubles in each round trip until a loss.
  void reset(std::uint32_t limit, const FlightParameters& parameters) {
    limit_ = threshold_ = whole(limit);
    window_ = std::min(whole(parameters.initial_flight), limit_);
    recovering_ = counting_ = false;
  }
  void set_limit(std::uint32_t limit) {
    if (threshold_ == limit_) threshold_ = whole(limit);
    limit_ = whole(limit);
    window_ = std::min(window_, limit_);
  }

  /// Returns the window in packets, at least one.
  std::uint32_t size() const { return std::max(window_ / kPacket, 1u); }
  /// Returns the pause between two packets if the window is below one packet, else 0.
  Duration pause(const RoundTrip& round_trip) const {
    if (window_ >= kPacket) return Duration{};
    return std::min(round_trip.smoothed() * kPacket / window_, kLongestPause);
  }

  /// Grows the window: `packets` more are acknowledged, everything before `unacked` now.
  void grow(std::uint32_t packets, Psn unacked, const FlightParameters& parameters) {
    if (recovering_ && !unacked.is_before(recovery_end_)) recovering_ = false;
    if (counting_ && !unacked.is_before(counting_end_)) counting_ = false;
    if (window_ >= limit_) return;
    const bool doubles = window_ < threshold_;
    const std::uint64_t most = doubles ? std::min(threshold_, limit_) : limit_;
    const std::uint32_t step =
        doubles ? kPacket : kPacket / std::max<std::uint32_t>(size(), parameters.flight_steps);
    window_ = static_cast<std::uint32_t>(std::min(window_ + std::uint64_t{packets} * step, most));
  }

  /// Handles the loss of `packets` sent before `sent_end` that alone are retransmitted. That costs
  /// no more than the packets, so a few losses per window are tolerated, unless packets wait in a
  /// queue: it has then overflowed.
  void lose(std::uint32_t packets, Psn sent_end, const RoundTrip& round_trip,
            const FlightParameters& parameters) {
    if (!counting_) {
      counting_ = true;
      counting_end_ = sent_end;
      lost_ = 0;
    }
    lost_ = static_cast<std::uint16_t>(std::min(lost_ + packets, 0xffffu));
    if (lost_ * parameters.borne_losses > size() || round_trip.is_queued(size(), parameters))
      shrink(sent_end, window_ / 2);
  }
  /// Handles a loss before `sent_end` after which everything behind it is sent again.
  void lose_rest(Psn sent_end, const RoundTrip& round_trip, const FlightParameters& parameters) {
    shrink(sent_end, round_trip.is_queued(size(), parameters) ? window_ / 2 : window_ / 5 * 4);
  }

  /// Handles a timeout: nothing sent before `sent_end` was answered. One packet goes first, then
  /// twice as many in each round trip, up to half of the previous window (RFC 5681, 3.1).
  void time_out(Psn sent_end) {
    shrink(sent_end, window_ / 2);
    begin_again();
  }
  /// Starts again at one packet, as on a path that was not measured yet.
  void begin_again() { window_ = std::min(window_, kPacket); }

 private:
  static constexpr std::uint32_t kPacket = 1 << 16;  ///< units of the window per packet
  static constexpr std::uint32_t kLeast = kPacket / 16;
  static constexpr Duration kLongestPause = std::chrono::milliseconds(16);

  /// Shrinks the window; the losses of one window count once.
  void shrink(Psn sent_end, std::uint32_t window) {
    if (recovering_) return;
    recovering_ = true;
    recovery_end_ = sent_end;
    threshold_ = window_ = std::max(window, kLeast);
  }
  static std::uint32_t whole(std::uint32_t packets) { return std::min(packets, 0xffffu) * kPacket; }

  std::uint32_t limit_ = kPacket;
  std::uint32_t window_ = kPacket;
  std::uint32_t threshold_ = kPacket;  ///< below it, each acknowledged packet adds one
  bool recovering_ = false;
  bool counting_ = false;
  std::uint16_t lost_ = 0;  ///< packets sent before `counting_end_`
  Psn recovery_end_;
  Psn counting_end_;
};

/// Wait before the next packet, if the window is below one packet.
class Pause {
 public:
  void end() { until_ = kNever; }
  void after_packet(Time now, const FlightWindow& flight, const RoundTrip& round_trip) {
    const Duration wait = flight.pause(round_trip);
    if (wait != Duration{}) until_ = now + wait;
  }
  bool runs() const { return until_ != kNever; }
  bool is_over(Time now) const { return now >= until_; }
  Time until() const { return until_; }  ///< kNever unless it runs

 private:
  Time until_ = kNever;
};

}  // namespace softhca::transport
