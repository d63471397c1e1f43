// SPDX-License-Identifier: Apache-2.0

// When doorbells leave the scheduler for the overflow buffer (mechanism B4): the thresholds that
// show a potential deadlock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/qos/schedule/doorbell_config.hpp"

namespace softhca::schedule {

/// How many places of the scheduler should be free.
///
/// Adaptive: a quarter of the average number in use over the last milliseconds, at least the
/// configured number and at most half of all. If many queue pairs have doorbells pending all the
/// time, newcomers find room without pruning. A burst after a quiet time may use nearly everything.
class EntryThreshold {
 public:
  static constexpr Duration kInterval = std::chrono::microseconds(100);

  /// To be called about as often as the load changes; samples at most once an interval.
  void sample(Time now, std::uint32_t in_use) {
    if (now < next_sample_) return;
    next_sample_ = now + kInterval;
    average_ += std::int64_t{in_use} - average_ / kWeight;
  }
  std::uint32_t in_force(const DoorbellConfig& config) const {
    if (!config.adaptive) return config.threshold;
    const auto wanted = static_cast<std::uint32_t>(average_ / kWeight / 4);
    return std::max(config.threshold, std::min(wanted, config.entries / 2));
  }

 private:
  static constexpr std::int64_t kWeight = 32;

  Time next_sample_{};
  std::int64_t average_ = 0;  ///< times kWeight
};

/// The dedicated PCBs of one tenant, and whether all of them wait.
///
/// Adaptive: when PCBs are held n times as long as usual (moving average over some 8 commands
/// against one over some 256), n times as many have to be free, up to half of all. So a tenant with
/// peers that slow down keeps less in the scheduler.
class DedicatedWatch {
 public:
  void taken() { ++in_use_; }
  /// The command was handed to its transport and needs nothing more of the daemon.
  void waits() { ++waiting_; }
  /// `waited`: waits() was called for it; `held`: since taken().
  void released(bool waited, Duration held) {
    --in_use_;
    if (waited) --waiting_;
    const std::int64_t sample = std::max<std::int64_t>(held.count(), 1) * kScale;
    recent_ += recent_ == 0 ? sample : (sample - recent_) / 8;
    usual_ += usual_ == 0 ? sample : (sample - usual_) / 256;
  }

  std::uint32_t threshold(const DoorbellConfig& config, std::uint32_t limit) const {
    const std::uint32_t least = config.dedicated_threshold;
    if (!config.adaptive || usual_ == 0) return least;
    const std::int64_t scaled = std::int64_t{least} * recent_ / usual_;
    const std::int64_t most = std::max(least, limit / 2);
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(scaled, least, most));
  }
  std::uint32_t free(std::uint32_t limit) const { return limit - std::min(limit, in_use_); }
  /// True in a potential deadlock: fewer are free than the threshold, and only the peers can change
  /// that.
  bool stuck(const DoorbellConfig& config, std::uint32_t limit) const {
    return waiting_ == in_use_ && free(limit) < std::max(config.dedicated_threshold, limit / 2) &&
           free(limit) < threshold(config, limit);
  }

 private:
  static constexpr std::int64_t kScale = 256;  ///< keeps the fractions of short times

  std::uint32_t in_use_ = 0;
  std::uint32_t waiting_ = 0;
  std::int64_t recent_ = 0;
  std::int64_t usual_ = 0;
};

}  // namespace softhca::schedule
