// When a requester acts without having heard anything: local ACK timeout, an earlier retry, the end
// of a wait in which nothing is sent, after an RNR NAK or as the peer is silent (InfiniBand
// specification, volume 1, 9.7.6.1.3, 9.7.5.2.8).
#pragma once

#include <algorithm>

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

  /// From now on silence counts: for the timeout, and for an early retry after `rto`.
  void start(Time now, Duration rto) {
    stop();
    if (timeout_.count() == 0) return;
    ack_deadline_ = now + timeout_;
    if (rto < timeout_) early_deadline_ = now + rto;
  }
  void stop() {
    ack_deadline_ = early_deadline_ = kNever;
    rests_ = tries_again_ = false;
  }
  /// A packet was sent: start(), unless it runs. The first after a rest is waited for even if the
  /// timeout has come meanwhile.
  void sent(Time now, Duration rto) {
    if (!runs()) return start(now, rto);
    if (!tries_again_) return;
    tries_again_ = false;
    ack_deadline_ = std::max(ack_deadline_, now + std::min(rto, timeout_));
    early_deadline_ = rto < timeout_ ? now + rto : kNever;
  }
  bool runs() const { return ack_deadline_ != kNever; }
  /// True: the timeout has not come; an early retry may have.
  bool is_early(Time now) const { return now < ack_deadline_; }
  /// After an early retry: the next one in `rto`. The timeout goes on running.
  void await_again(Time now, Duration rto) { early_deadline_ = now + rto; }

  /// The receiver is not ready: silence until then.
  void hold_until(Time time) {
    stop();
    rnr_until_ = time;
  }
  /// The peer is silent: nothing is sent until the next retry is due. REQUIRES: runs().
  void rest() { rests_ = tries_again_ = true; }
  /// The retry goes later: it is waited for from when it does.
  void wait_for_next() { tries_again_ = true; }
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
    return rnr_until_ != kNever ? rnr_until_ : std::min(ack_deadline_, early_deadline_);
  }

 private:
  Duration timeout_{};
  Time ack_deadline_ = kNever;
  Time early_deadline_ = kNever;  ///< before ack_deadline_, or never
  Time rnr_until_ = kNever;
  bool rests_ = false;
  bool tries_again_ = false;  ///< nothing was sent since
};

}  // namespace softhca::transport
