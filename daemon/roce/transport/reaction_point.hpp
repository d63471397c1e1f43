// SPDX-License-Identifier: Apache-2.0

// Reaction point of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
// SIGCOMM 2015, after QCN, IEEE 802.1Qau): limits the rate of a queue pair after its peer has
// reported congestion on the path.
//
// A CNP cuts the rate by a part that depends on alpha, an average of how often CNPs arrive. Then
// the rate recovers in steps, one each `rpg_time_reset` and one each `rpg_byte_reset` bytes sent.
// Fast recovery goes half the way to the target. Additive increase also raises the target by a
// little. Hyper increase raises it more and more, if both kinds of steps continue.
//
// The clock is used only when a CNP arrives or a packet is to be sent; the steps since then are
// then made up for, in order.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/roce/transport/congestion.hpp"

namespace softhca::transport {

class ReactionPoint {
 public:
  /// True if a CNP has arrived and the rate has not recovered. Otherwise the functions below need
  /// not be called.
  bool limited() const { return rate_ != 0; }
  double rate() const { return rate_; }      ///< bits per second; 0: not limited
  double target() const { return target_; }  ///< bits per second; 0: not limited
  double alpha() const { return alpha_; }    ///< 0 to 1

  /// Handles a CNP.
  void notify(const CongestionParameters& p, Time now);
  /// Makes up for the time until `now`. May end the limit.
  void advance(const CongestionParameters& p, Time now);
  void release() { *this = ReactionPoint(); }

  // REQUIRES: limited(), and advance() at the same time.
  /// True if a packet may be sent now. If not, it waits until wake_at().
  bool may_send(Time now);
  /// True if the packet after one of `bytes` would have to wait.
  bool holds_after(std::uint32_t bytes, Time now) const { return next_after(bytes, now) > now; }
  /// Records a packet of `bytes`. May end the limit.
  void sent(const CongestionParameters& p, std::uint32_t bytes, Time now);

  /// Makes a packet wait until `at` for another reason. REQUIRES: not limited().
  void hold_until(Time at) {
    waiting_ = true;
    next_ = at;
  }
  /// Ends the wait: the packet will ask again.
  void resume() { waiting_ = false; }
  /// Returns when a waiting packet may be sent; kNever if none waits.
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
  Time stage_began_{};  ///< start of the current step by time
  Time next_{};         ///< when the next packet may be sent
  std::uint32_t stage_bytes_ = 0;
  std::uint32_t time_stage_ = 0;  ///< steps since the last decrease
  std::uint32_t byte_stage_ = 0;
  bool notified_ = false;       ///< a CNP arrived since alpha was updated
  bool reduction_due_ = false;  ///< a CNP arrived too soon after a decrease
  bool waiting_ = false;
};

}  // namespace softhca::transport
