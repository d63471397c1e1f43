// SPDX-License-Identifier: Apache-2.0

// Timers of a requester that act on silence: local ACK timeout, early retry, and the end of a wait
// after an RNR NAK or because the peer is silent (InfiniBand specification, volume 1, 9.7.6.1.3,
// 9.7.5.2.8).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "daemon/base/time.hpp"

namespace softhca::transport {

class RetryTimer {
 public:
  /// `timeout` 0: silence never ends a wait, and nothing is retransmitted unless the peer asks for
  /// it.
  void configure(Duration timeout) { timeout_ = timeout; }
  /// Stops all timers.
  void reset() {
    stop();
    release();
  }

  bool has_timeout() const { return timeout_.count() != 0; }

  /// Starts measuring silence: for the timeout, and for an early retry after `rto`.
  void start(Time now, Duration rto) {
    stop();
    if (timeout_.count() == 0) return;
    ack_deadline_ = now + timeout_;
    if (rto < timeout_) early_deadline_ = now + rto;
  }
  void stop() {
    ack_deadline_ = early_deadline_ = kNever;
    probe_lead_ = 0;
    rests_ = tries_again_ = false;
  }
  /// True if sent() would do something.
  bool needs_wait() const { return !runs() || tries_again_; }
  /// Calls start() for a packet that was sent, unless the timer runs. The first packet after rest()
  /// gets a full wait, even if the timeout has expired meanwhile.
  void sent(Time now, Duration rto) {
    if (!runs()) return start(now, rto);
    if (!tries_again_) return;
    tries_again_ = false;
    probe_lead_ = 0;
    ack_deadline_ = std::max(ack_deadline_, now + std::min(rto, timeout_));
    early_deadline_ = rto < timeout_ ? now + rto : kNever;
  }
  /// Schedules a probe in `wait`, unless one is scheduled already. Does nothing if a retry comes
  /// first, or more than 4 s after the probe.
  void await_probe(Time now, Duration wait) {
    const Time retry = this->retry();
    if (awaits_probe() || retry == kNever || wait >= retry - now) return;
    const Duration lead = retry - now - wait;
    if (lead <= Duration(std::numeric_limits<std::uint32_t>::max()))
      probe_lead_ = static_cast<std::uint32_t>(lead.count());
  }
  bool awaits_probe() const { return probe_lead_ != 0; }
  /// Like await_probe(), but replaces a scheduled probe.
  void restart_probe(Time now, Duration wait) {
    probe_lead_ = 0;
    await_probe(now, wait);
  }
  /// Returns true once if a probe is due and no retry.
  bool take_probe(Time now) {
    if (probe_lead_ == 0 || now < retry() - Duration(probe_lead_)) return false;
    probe_lead_ = 0;
    return now < retry();
  }
  /// The peer requested a retransmission: schedules an early retry in `rto`. The timeout continues.
  void goes_on(Time now, Duration rto) { runs() ? await_again(now, rto) : start(now, rto); }
  bool runs() const { return ack_deadline_ != kNever; }
  /// True if the timeout has not expired; an early retry may be due.
  bool is_early(Time now) const { return now < ack_deadline_; }
  /// After an early retry, schedules the next one in `rto`. The timeout continues.
  void await_again(Time now, Duration rto) {
    early_deadline_ = now + rto;
    probe_lead_ = 0;
  }

  /// Holds all packets until `time`, because the receiver is not ready.
  void hold_until(Time time) {
    stop();
    rnr_until_ = time;
  }
  /// Holds all packets until the next retry, because the peer is silent. REQUIRES: runs().
  void rest() {
    rests_ = tries_again_ = true;
    probe_lead_ = 0;
  }
  /// Delays the retry: its wait starts when it is sent.
  void wait_for_next() { tries_again_ = true; }
  bool goes_later() const { return tries_again_; }
  bool rests() const { return rests_; }
  /// True if hold_until() or rest() was called, and not release().
  bool is_held() const { return rnr_until_ != kNever || rests_; }
  /// True if packets are held and the time has not come.
  bool must_hold(Time now) const { return is_held() && now < deadline(); }
  void release() {
    rnr_until_ = kNever;
    rests_ = false;
  }

  /// Returns when the next timer expires; kNever if none runs.
  Time deadline() const {
    if (rnr_until_ != kNever) return rnr_until_;
    return retry() == kNever ? kNever : retry() - Duration(probe_lead_);
  }

 private:
  Time retry() const { return std::min(ack_deadline_, early_deadline_); }

  Duration timeout_{};
  Time ack_deadline_ = kNever;
  Time early_deadline_ = kNever;  ///< before ack_deadline_, or kNever
  Time rnr_until_ = kNever;
  bool rests_ = false;
  bool tries_again_ = false;      ///< the retry was not sent yet
  std::uint32_t probe_lead_ = 0;  ///< time before the earlier of both, in ns; 0: no probe
};

}  // namespace softhca::transport
