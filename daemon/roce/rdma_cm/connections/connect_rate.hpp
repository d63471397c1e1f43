// SPDX-License-Identifier: Apache-2.0

// Limits how many connections begin per second. All connections of a second may begin at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::management::rdma_cm {

class ConnectRate {
 public:
  /// Counts one more. Returns false if the limit is reached. `leaves_half`: only half of the limit
  /// may be used, so that the rest is left for others. `per_second` 0: no limit.
  bool take(std::uint32_t per_second, Time now, bool leaves_half = false) {
    if (per_second == 0) return true;
    constexpr Duration kSecond = std::chrono::seconds(1);
    const Duration one = kSecond / per_second;
    const Time full_at = std::max(full_at_, now) + one;
    if (full_at > now + (leaves_half ? std::max(one, kSecond / 2) : kSecond)) return false;
    full_at_ = full_at;
    return true;
  }

 private:
  Time full_at_;  ///< when the full number of a second is free again
};

}  // namespace softhca::management::rdma_cm
