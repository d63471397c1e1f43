// How much a requester has under way, and how long it waits before it takes silence for loss. Both
// go beyond the InfiniBand specification, which leaves them to static attributes, and change
// nothing a peer could object to: fewer packets in flight, and retries before the timeout asks for
// them (docs/decisions.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/reliability.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca::transport {

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
  /// All before `unacked` are acknowledged. Only what is measured ends the patience of back_off():
  /// an answer to what was sent twice says nothing of the way.
  void acknowledged(Psn unacked, Time now) {
    if (!timing_ || !unacked.is_after(psn_)) return;
    timing_ = false;
    backoff_ = 0;
    sample(std::clamp(now - since_, Duration(1), kLongest), now);
  }
  /// Packets will be sent twice, so that an answer may take longer for it, or say nothing about its
  /// time. A time that is too long is better than none.
  void distrust() {
    if (smoothed_ != Duration{}) timing_ = false;
  }
  /// The last wait was not long enough.
  void back_off() {
    backoff_ = static_cast<std::uint8_t>(std::min(backoff_ + 1u, kLongestBackoff));
  }

  bool is_known() const { return smoothed_ != Duration{}; }
  Duration smoothed() const { return smoothed_; }  ///< Duration{} unless is_known()
  /// So many of `packets` in flight, or half of them, wait in a queue, by the last time measured
  /// beside the least (Fu and Liew, "TCP Veno: TCP Enhancement for Transmission Over Wireless
  /// Access Networks", IEEE JSAC 21(2), 2003).
  bool is_queued(std::uint32_t packets, const FlightParameters& parameters) const {
    const std::uint32_t least = std::min(least_, least_before_);
    if (latest_ < least + kJitter) return false;
    const std::uint32_t many = std::min<std::uint32_t>(packets, 2u * parameters.queued_packets);
    return std::uint64_t{latest_ - least} * 2 * packets >= std::uint64_t{latest_} * many;
  }

  /// How long before a probe asks for an answer: after two round trips (RFC 8985, 7.2);
  /// Duration::max() while nothing was measured.
  Duration probe_after() const {
    if (!is_known()) return Duration::max();
    return std::max<Duration>(2 * smoothed_, smoothed_ + 4 * variation_);
  }
  /// How long to wait for an answer.
  Duration rto() const {
    const Duration one = is_known() ? smoothed_ + 4 * variation_ : kFirst;
    return std::max(one, kShortest) * (1u << backoff_);
  }

 private:
  // Below that lies what a scheduler does to a daemon that shares its core.
  static constexpr Duration kShortest = std::chrono::milliseconds(1);
  /// While nothing was measured. The 1 s of RFC 6298 are for paths round the world.
  static constexpr Duration kFirst = std::chrono::milliseconds(8);
  static constexpr unsigned kLongestBackoff = 10;
  static constexpr Duration kLongest = std::chrono::seconds(1);
  /// The way may be another one later: the least holds for so long, and once more.
  static constexpr Duration kLeastHolds = std::chrono::seconds(5);
  static constexpr std::uint32_t kJitter =
      20'000;  ///< ns, of hosts, that no queue on the way makes

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
  std::uint32_t least_before_ = 0;  ///< in the time before
  Time least_since_{};
};

/// Packets that may be in flight: slow start, additive increase, multiplicative decrease (RFC
/// 5681). A go-back-N sender sends its whole flight again for one lost packet, so that a smaller
/// flight is both the cure and the lesser harm.
///
/// Many flows through a short queue have less than a packet each: then one goes in several round
/// trips (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
/// Datacenter", SIGCOMM 2020, 3.5).
class FlightWindow {
 public:
  /// `limit` >= 1 packets, to which the window doubles in each round trip until something is lost.
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

  /// In packets, at least one.
  std::uint32_t size() const { return std::max(window_ / kPacket, 1u); }
  /// Between two packets, where the window is less than one; 0 otherwise.
  Duration pause(const RoundTrip& round_trip) const {
    if (window_ >= kPacket) return Duration{};
    return std::min(round_trip.smoothed() * kPacket / window_, kLongestPause);
  }

  /// `packets` more are acknowledged, all before `unacked` now.
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

  /// `packets` sent before `sent_end` were lost, and only they are sent again: that costs no more
  /// than they do, so a few in a flight are borne, unless packets wait in a queue, which overflows
  /// then.
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
  /// Something sent before `sent_end` was lost, and all behind it is sent again.
  void lose_rest(Psn sent_end, const RoundTrip& round_trip, const FlightParameters& parameters) {
    shrink(sent_end, round_trip.is_queued(size(), parameters) ? window_ / 2 : window_ / 5 * 4);
  }

  /// Nothing that was sent before `sent_end` was answered in time: one packet at first, and twice
  /// as many in each round trip up to half of what it was (RFC 5681, 3.1).
  void time_out(Psn sent_end) {
    shrink(sent_end, window_ / 2);
    begin_again();
  }
  /// As much as is known of a way on which nothing was measured yet.
  void begin_again() { window_ = std::min(window_, kPacket); }

 private:
  static constexpr std::uint32_t kPacket = 1 << 16;  ///< the unit of the window is a part of it
  static constexpr std::uint32_t kLeast = kPacket / 16;
  static constexpr Duration kLongestPause = std::chrono::milliseconds(16);

  /// The losses of one flight count once.
  void shrink(Psn sent_end, std::uint32_t window) {
    if (recovering_) return;
    recovering_ = true;
    recovery_end_ = sent_end;
    threshold_ = window_ = std::max(window, kLeast);
  }
  static std::uint32_t whole(std::uint32_t packets) { return std::min(packets, 0xffffu) * kPacket; }

  std::uint32_t limit_ = kPacket;
  std::uint32_t window_ = kPacket;
  std::uint32_t threshold_ = kPacket;  ///< up to which each acknowledged packet adds one
  bool recovering_ = false;
  bool counting_ = false;
  std::uint16_t lost_ = 0;  ///< of what was sent before `counting_end_`
  Psn recovery_end_;
  Psn counting_end_;
};

/// The wait until the next packet may go, where the window is less than one.
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
