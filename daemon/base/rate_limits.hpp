// How much a tenant may send a second.
#pragma once

#include <cstdint>

namespace softhca {

/// Limits on the messages that a tenant starts; a read counts with the bytes it asks for. By
/// default there is no limit.
struct RateLimits {
  std::uint64_t bytes_per_second = 0;  ///< 0: no limit
  std::uint64_t burst_bytes = 1 << 20;
  std::uint64_t messages_per_second = 0;  ///< 0: no limit
  std::uint64_t burst_messages = 64;

  bool operator==(const RateLimits&) const = default;
};

}  // namespace softhca
