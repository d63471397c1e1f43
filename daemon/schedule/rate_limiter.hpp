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

  /// A message of so many bytes starts.
  void charge(std::uint64_t bytes, Time now) {
    bytes_.charge(bytes, now);
    messages_.charge(1, now);
  }
  /// The message was taken back before it went.
  void refund(std::uint64_t bytes) {
    bytes_.refund(bytes);
    messages_.refund(1);
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
