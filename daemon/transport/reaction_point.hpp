// Reaction point of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
// SIGCOMM 2015, after QCN, IEEE 802.1Qau): how fast a queue pair may send after its peer has told
// of congestion on the way.
//
// A CNP cuts the rate by a part that depends on alpha, an average of how often CNPs come. Then the
// rate recovers in steps, one each `rpg_time_reset` and one each `rpg_byte_reset` bytes sent: half
// the way to the target (fast recovery), the target itself raised by a little (additive increase),
// or by more and more when both kinds of steps go on (hyper increase).
//
// Time is looked at only when a CNP comes or a packet is to be sent; then what has happened since
// is made up for, in order.
#pragma once

#include <cstdint>

#include "daemon/base/congestion.hpp"
#include "daemon/base/time.hpp"

namespace softhca::transport {

class ReactionPoint {
 public:
  /// False: no CNP has come, or the rate has recovered; there is nothing to ask or tell.
  bool limited() const { return rate_ != 0; }
  double rate() const { return rate_; }      ///< bits per second; 0: not limited
  double target() const { return target_; }  ///< bits per second; 0: not limited
  double alpha() const { return alpha_; }    ///< 0 to 1

  /// A CNP has come.
  void notify(const CongestionParameters& p, Time now);
  /// Makes up for the time until `now`. May end the limit.
  void advance(const CongestionParameters& p, Time now);
  void release() { *this = ReactionPoint(); }

  // REQUIRES: limited(), and advance() at the same time.
  /// May a packet go? If not, one waits, and wake_at() says how long.
  bool may_send(Time now);
  /// Would the packet after one of `bytes` have to wait?
  bool holds_after(std::uint32_t bytes, Time now) const { return next_after(bytes, now) > now; }
  /// A packet of `bytes` has gone. May end the limit.
  void sent(const CongestionParameters& p, std::uint32_t bytes, Time now);

  /// A packet waits until `at` for another reason. REQUIRES: not limited().
  void hold_until(Time at) {
    waiting_ = true;
    next_ = at;
  }
  /// No packet waits any more: the packet will be asked for again.
  void resume() { waiting_ = false; }
  /// When a packet that waits may go; kNever when none waits.
  Time wake_at() const { return waiting_ ? next_ : kNever; }

 private:
  void begin(const CongestionParameters& p, Time now);
  void reduce(const CongestionParameters& p, Time at);
  void increase(const CongestionParameters& p);
  void update_alpha(const CongestionParameters& p, Time until);
  Time next_after(std::uint32_t bytes, Time now) const;

  double rate_ = 0;
  double target_ = 0;
  double alpha_ = 0;
  Time alpha_updated_{};
  Time reduced_at_{};
  Time stage_began_{};  ///< the step by time under way
  Time next_{};         ///< when the next packet may go
  std::uint32_t stage_bytes_ = 0;
  std::uint32_t time_stage_ = 0;  ///< steps since the last decrease
  std::uint32_t byte_stage_ = 0;
  bool notified_ = false;       ///< a CNP came since alpha was updated
  bool reduction_due_ = false;  ///< a CNP came too soon after a decrease
  bool waiting_ = false;
};

}  // namespace softhca::transport
