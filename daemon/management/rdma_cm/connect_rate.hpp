// How many connections may begin in a second. As many as a second allows may come at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::management::rdma_cm {

class ConnectRate {
 public:
  /// One more. False: too many; `leaves_half`: more than half of what a second allows, so that
  /// there is something left for others. `per_second` 0: no limit.
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
  Time full_at_;  ///< when as many as a second allows are free again
};

}  // namespace softhca::management::rdma_cm
