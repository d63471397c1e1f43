// SPDX-License-Identifier: Apache-2.0

// Limits on the rates at which a tenant sends, and at which its peers send to it and read from it.
#pragma once

#include <cstdint>

namespace softhca {

/// Limits on the messages that a tenant starts. A read counts with the bytes it requests. The
/// defaults set no limit.
struct RateLimits {
  std::uint64_t bytes_per_second = 0;  ///< 0: no limit
  std::uint64_t burst_bytes = 1 << 20;
  std::uint64_t messages_per_second = 0;  ///< 0: no limit
  std::uint64_t burst_messages = 64;

  bool operator==(const RateLimits&) const = default;
};

/// Also guarantees a minimum rate, regardless of other tenants, while the tenant has something to
/// send.
struct SentLimits : RateLimits {
  std::uint64_t min_bytes_per_second = 0;  ///< 0: its weight alone decides

  bool operator==(const SentLimits&) const = default;
};

/// Limits on what peers send to it: their sends, writes and atomics.
struct InboundLimits : RateLimits {
  bool operator==(const InboundLimits&) const = default;
};

/// Limits on what peers read from it.
struct ServedLimits : RateLimits {
  bool operator==(const ServedLimits&) const = default;
};

}  // namespace softhca
