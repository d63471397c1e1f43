// A tenant's rate: bytes and messages a second, with a burst of each.
//
// Token buckets that may run into debt: a command starts while neither bucket is overdrawn and is
// charged in full, whatever its length, so that a message longer than the burst can be sent at all;
// the next one waits until the debt is paid. Over time the rate is exact.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::schedule {

struct Rate {
  std::uint64_t per_second = 0;  ///< 0: no limit
  std::uint64_t burst = 0;       ///< what may be used at once after a pause; at least 1 counts

  bool operator==(const Rate&) const = default;
};

class TokenBucket {
 public:
  /// Starts with a full burst; a debt stays.
  void set(const Rate& rate, Time now) {
    rate_ = rate;
    // The time the bucket takes to fill is what is kept of it: exact without fractions of tokens.
    full_at_ = rate.per_second == 0 ? Time{} : std::max(full_at_, now);
  }
  const Rate& rate() const { return rate_; }

  void charge(std::uint64_t amount, Time now) {
    if (rate_.per_second == 0) return;
    full_at_ = std::min(std::max(full_at_, now) + time_of(amount), now + kLongest);
  }
  /// When the bucket is out of debt; in the past if it is not in debt.
  Time ready_at() const { return full_at_ - time_of(std::max<std::uint64_t>(rate_.burst, 1) - 1); }

 private:
  static constexpr Duration kLongest = std::chrono::hours(24 * 365 * 30);

  /// Time in which `amount` comes in, rounded down.
  Duration time_of(std::uint64_t amount) const {
    if (rate_.per_second == 0) return Duration::zero();
    const double ns = static_cast<double>(amount) * 1e9 / static_cast<double>(rate_.per_second);
    return Duration(
        static_cast<Duration::rep>(std::min(ns, static_cast<double>(kLongest.count()))));
  }

  Rate rate_;
  Time full_at_{};
};

class RateLimiter {
 public:
  void set(const Rate& bytes, const Rate& messages, Time now) {
    bytes_.set(bytes, now);
    messages_.set(messages, now);
  }
  const Rate& bytes() const { return bytes_.rate(); }
  const Rate& messages() const { return messages_.rate(); }
  bool limited() const { return bytes_.rate().per_second != 0 || messages_.rate().per_second != 0; }

  /// A message of so many bytes starts.
  void charge(std::uint64_t bytes, Time now) {
    bytes_.charge(bytes, now);
    messages_.charge(1, now);
  }
  /// The next command may start from then on.
  Time ready_at() const {
    Time ready{};
    if (bytes_.rate().per_second != 0) ready = std::max(ready, bytes_.ready_at());
    if (messages_.rate().per_second != 0) ready = std::max(ready, messages_.ready_at());
    return ready;
  }

 private:
  TokenBucket bytes_;
  TokenBucket messages_;
};

}  // namespace softhca::schedule
