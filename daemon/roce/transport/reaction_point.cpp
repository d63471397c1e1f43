// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reaction_point.hpp"

#include <algorithm>
#include <cmath>

namespace softhca::transport {
namespace {

using std::chrono::microseconds;

constexpr double kMegabit = 1e6;
constexpr double kAlphaUnit = 1024;

// How far a late sender may catch up: an engine serves other queue pairs in between.
constexpr Duration kSlack = microseconds(100);

// Most steps by time in one call. After a long idle time the next packet makes up for the rest.
constexpr unsigned kStepsAtOnce = 256;

}  // namespace

void ReactionPoint::notify(const CongestionParameters& p, Time now) {
  advance(p, now);
  if (!limited()) {
    begin(p, now);
    if (p.fixed.rate_to_set_on_first_cnp == 0) reduce(p, now);
    return;
  }
  notified_ = true;
  if (now - reduced_at_ >= microseconds(p.fixed.rate_reduce_monitor_period))
    reduce(p, now);
  else
    reduction_due_ = true;
}

void ReactionPoint::begin(const CongestionParameters& p, Time now) {
  const std::uint32_t first =
      p.fixed.rate_to_set_on_first_cnp != 0 ? p.fixed.rate_to_set_on_first_cnp : p.rpg_max_rate;
  rate_ = target_ = first * kMegabit;
  alpha_ = p.fixed.initial_alpha_value / kAlphaUnit;
  alpha_updated_ = reduced_at_ = stage_began_ = next_ = now;
  stage_bytes_ = time_stage_ = byte_stage_ = 0;
  notified_ = true;
  reduction_due_ = waiting_ = false;
}

void ReactionPoint::advance(const CongestionParameters& p, Time now) {
  const Duration step = microseconds(p.fixed.rpg_time_reset);
  const Duration monitored = microseconds(p.fixed.rate_reduce_monitor_period);
  for (unsigned steps = 0; limited() && steps < kStepsAtOnce;) {
    const Time reduction = reduction_due_ ? reduced_at_ + monitored : kNever;
    const Time end_of_stage = stage_began_ + step;
    if (std::min(reduction, end_of_stage) > now) break;
    if (reduction <= end_of_stage) {
      reduce(p, reduction);
      continue;
    }
    stage_began_ = end_of_stage;
    ++time_stage_;
    increase(p);
    ++steps;
  }
  update_alpha(p, now);
}

/// The target follows the rate down, unless the previous decrease was so recent that the rate has
/// not risen.
void ReactionPoint::reduce(const CongestionParameters& p, Time at) {
  update_alpha(p, at);
  const bool has_risen =
      byte_stage_ > 0 || (p.fixed.clamp_tgt_rate_after_time_inc && time_stage_ > 0);
  if (p.fixed.clamp_tgt_rate || has_risen) target_ = rate_;
  const double remains = std::max(1 - alpha_ * kAlphaUnit / std::ldexp(1, int(p.fixed.rpg_gd)),
                                  p.fixed.rpg_min_dec_fac / 100.0);
  rate_ = std::max(rate_ * remains, p.fixed.rpg_min_rate * kMegabit);
  time_stage_ = byte_stage_ = stage_bytes_ = 0;
  stage_began_ = reduced_at_ = at;
  reduction_due_ = false;
}

void ReactionPoint::increase(const CongestionParameters& p) {
  const auto [fewer, more] = std::minmax(time_stage_, byte_stage_);
  if (fewer > p.fixed.rpg_threshold)
    target_ += p.fixed.rpg_hai_rate * kMegabit * (fewer - p.fixed.rpg_threshold);
  else if (more > p.fixed.rpg_threshold)
    target_ += p.fixed.rpg_ai_rate * kMegabit;
  rate_ = (rate_ + target_) / 2;
  if (rate_ >= p.rpg_max_rate * kMegabit) release();
}

/// Alpha moves towards 1 for a period with a CNP and towards 0 for one without.
void ReactionPoint::update_alpha(const CongestionParameters& p, Time until) {
  const Duration period = microseconds(p.fixed.dce_tcp_rtt);
  if (!limited() || until - alpha_updated_ < period) return;
  const auto periods = (until - alpha_updated_) / period;
  const double keep = p.fixed.dce_tcp_g / kAlphaUnit;
  alpha_ = alpha_ * keep + (notified_ ? 1 - keep : 0);
  if (periods > 1) alpha_ *= std::pow(keep, static_cast<double>(periods - 1));
  alpha_updated_ += periods * period;
  notified_ = false;
}

bool ReactionPoint::may_send(Time now) {
  waiting_ = next_ > now;
  return !waiting_;
}

Time ReactionPoint::next_after(std::uint32_t bytes, Time now) const {
  const double ns = bytes * 8e9 / rate_;
  return std::max(next_, now - kSlack) + Duration(static_cast<Duration::rep>(ns));
}

void ReactionPoint::sent(const CongestionParameters& p, std::uint32_t bytes, Time now) {
  next_ = next_after(bytes, now);
  stage_bytes_ += bytes;
  while (limited() && stage_bytes_ >= p.fixed.rpg_byte_reset) {
    stage_bytes_ -= p.fixed.rpg_byte_reset;
    ++byte_stage_;
    increase(p);
  }
}

}  // namespace softhca::transport
