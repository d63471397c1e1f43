// SPDX-License-Identifier: Apache-2.0

// A rate with a burst: a token bucket that may go into debt. A message may start while the bucket
// is not in debt, and is charged in full. The next one waits, or is dropped, until the debt is
// paid. Over time the rate is exact.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca {

struct Rate {
  std::uint64_t per_second = 0;  ///< 0: no limit
  std::uint64_t burst = 0;       ///< amount that may be used at once after a pause; 0 counts as 1

  bool operator==(const Rate&) const = default;
};

class TokenBucket {
 public:
  /// Sets the rate. The first call starts with a full burst; later ones keep a debt, to be paid at
  /// the new rate.
  void set(const Rate& rate, Time now) {
    const std::uint64_t before = rate_.per_second;
    rate_ = rate;
    // The state is the time that the bucket takes to fill, which is exact without fractions of
    // tokens.
    const Duration to_fill = std::max(full_at_ - now, Duration::zero());
    if (rate.per_second == 0)
      full_at_ = Time{};
    else if (before == rate.per_second)
      full_at_ = now + to_fill;
    else
      full_at_ = now + bounded(static_cast<double>(to_fill.count()) * static_cast<double>(before) /
                               static_cast<double>(rate.per_second));
  }
  const Rate& rate() const { return rate_; }

  void charge(std::uint64_t amount, Time now) {
    if (rate_.per_second == 0) return;
    full_at_ = std::min(std::max(full_at_, now) + time_of(amount), now + kLongest);
  }
  /// Reverts a charge().
  void refund(std::uint64_t amount) {
    if (rate_.per_second != 0) full_at_ -= time_of(amount);
  }
  /// Returns when the bucket is out of debt; a time in the past if it is not in debt.
  Time ready_at() const { return full_at_ - time_of(std::max<std::uint64_t>(rate_.burst, 1) - 1); }
  /// Returns when half of the burst is available; a time in the past if it is.
  Time half_full_at() const { return full_at_ - time_of(rate_.burst / 2); }

 private:
  static constexpr Duration kLongest = std::chrono::hours(24 * 365 * 30);

  static Duration bounded(double ns) {
    return Duration(
        static_cast<Duration::rep>(std::min(ns, static_cast<double>(kLongest.count()))));
  }
  /// Returns the time in which `amount` accrues, rounded down.
  Duration time_of(std::uint64_t amount) const {
    if (rate_.per_second == 0) return Duration::zero();
    return bounded(static_cast<double>(amount) * 1e9 / static_cast<double>(rate_.per_second));
  }

  Rate rate_;
  Time full_at_{};
};

}  // namespace softhca
