// SPDX-License-Identifier: Apache-2.0

// A tenant's rate: bytes and messages a second, with a burst of each. A command starts while
// neither bucket is in debt and is charged in full, whatever its length, so that a message longer
// than the burst can be sent at all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"

namespace softhca::schedule {

using softhca::Rate;
using softhca::TokenBucket;

class RateLimiter {
 public:
  void set(const Rate& bytes, const Rate& messages, Time now) {
    bytes_.set(bytes, now);
    messages_.set(messages, now);
  }
  const Rate& bytes() const { return bytes_.rate(); }
  const Rate& messages() const { return messages_.rate(); }
  bool limited() const { return bytes_.rate().per_second != 0 || messages_.rate().per_second != 0; }

  /// Charges so many bytes, and messages that start.
  void charge(std::uint64_t bytes, Time now, std::uint32_t messages = 1) {
    bytes_.charge(bytes, now);
    messages_.charge(messages, now);
  }
  /// Refunds a message that was taken back before it went.
  void refund(std::uint64_t bytes) {
    bytes_.refund(bytes);
    messages_.refund(1);
  }
  /// Returns when the next command may start.
  Time ready_at() const {
    return latest([](const TokenBucket& b) { return b.ready_at(); });
  }
  /// Returns when a good part of the bursts may start at once.
  Time half_full_at() const {
    return latest([](const TokenBucket& b) { return b.half_full_at(); });
  }

 private:
  template <class At>
  Time latest(At&& at) const {
    Time time{};
    for (const TokenBucket* bucket : {&bytes_, &messages_})
      if (bucket->rate().per_second != 0) time = std::max(time, at(*bucket));
    return time;
  }

  TokenBucket bytes_;
  TokenBucket messages_;
};

}  // namespace softhca::schedule
