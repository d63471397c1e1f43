// When a requester acts without having heard anything: local ACK timeout, an earlier retry, the end
// of a wait in which nothing is sent, after an RNR NAK or as the peer is silent (InfiniBand
// specification, volume 1, 9.7.6.1.3, 9.7.5.2.8).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "daemon/base/time.hpp"

namespace softhca::transport {

class RetryTimer {
 public:
  /// `timeout` 0: silence never ends a wait, and nothing is sent again unasked.
  void configure(Duration timeout) { timeout_ = timeout; }
  /// Nothing is awaited.
  void reset() {
    stop();
    release();
  }

  bool has_timeout() const { return timeout_.count() != 0; }

  /// From now on silence counts: for the timeout, and for an early retry after `rto`.
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
  /// A packet was sent: start(), unless it runs. The first after a rest is waited for even if the
  /// timeout has come meanwhile.
  void sent(Time now, Duration rto) {
    if (!runs()) return start(now, rto);
    if (!tries_again_) return;
    tries_again_ = false;
    probe_lead_ = 0;
    ack_deadline_ = std::max(ack_deadline_, now + std::min(rto, timeout_));
    early_deadline_ = rto < timeout_ ? now + rto : kNever;
  }
  /// A probe comes in `wait`, or when it was to come already, if that is before all else that is
  /// awaited, and by no more than seconds.
  void await_probe(Time now, Duration wait) {
    const Time retry = this->retry();
    if (probe_lead_ != 0 || retry == kNever || wait >= retry - now) return;
    const Duration lead = retry - now - wait;
    if (lead <= Duration(std::numeric_limits<std::uint32_t>::max()))
      probe_lead_ = static_cast<std::uint32_t>(lead.count());
  }
  /// As await_probe(), from now on.
  void restart_probe(Time now, Duration wait) {
    probe_lead_ = 0;
    await_probe(now, wait);
  }
  /// True, once: a probe is due, and no retry.
  bool take_probe(Time now) {
    if (probe_lead_ == 0 || now < retry() - Duration(probe_lead_)) return false;
    probe_lead_ = 0;
    return now < retry();
  }
  /// The peer has asked for something that was sent: an early retry comes `rto` from now, and the
  /// timeout goes on running.
  void goes_on(Time now, Duration rto) { runs() ? await_again(now, rto) : start(now, rto); }
  bool runs() const { return ack_deadline_ != kNever; }
  /// True: the timeout has not come; an early retry may have.
  bool is_early(Time now) const { return now < ack_deadline_; }
  /// After an early retry: the next one in `rto`. The timeout goes on running.
  void await_again(Time now, Duration rto) {
    early_deadline_ = now + rto;
    probe_lead_ = 0;
  }

  /// The receiver is not ready: silence until then.
  void hold_until(Time time) {
    stop();
    rnr_until_ = time;
  }
  /// The peer is silent: nothing is sent until the next retry is due. REQUIRES: runs().
  void rest() {
    rests_ = tries_again_ = true;
    probe_lead_ = 0;
  }
  /// The retry goes later: it is waited for from when it does.
  void wait_for_next() { tries_again_ = true; }
  bool goes_later() const { return tries_again_; }
  bool rests() const { return rests_; }
  /// True: hold_until() or rest() was called, and release() was not.
  bool is_held() const { return rnr_until_ != kNever || rests_; }
  /// True: it is held, and the end of that has not come.
  bool must_hold(Time now) const { return is_held() && now < deadline(); }
  void release() {
    rnr_until_ = kNever;
    rests_ = false;
  }

  /// When something is to be done; kNever when nothing is awaited.
  Time deadline() const {
    if (rnr_until_ != kNever) return rnr_until_;
    return retry() == kNever ? kNever : retry() - Duration(probe_lead_);
  }

 private:
  Time retry() const { return std::min(ack_deadline_, early_deadline_); }

  Duration timeout_{};
  Time ack_deadline_ = kNever;
  Time early_deadline_ = kNever;  ///< before ack_deadline_, or never
  Time rnr_until_ = kNever;
  bool rests_ = false;
  bool tries_again_ = false;      ///< nothing was sent since
  std::uint32_t probe_lead_ = 0;  ///< before the earlier of both, in ns; 0: there is no probe
};

}  // namespace softhca::transport
