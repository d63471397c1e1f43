// How many connections may begin in a second. As many as a second allows may come at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::management::rdma_cm {

class ConnectRate {
 public:
  /// One more. False: too many. `per_second` 0: no limit.
  bool take(std::uint32_t per_second, Time now) {
    if (per_second == 0) return true;
    constexpr Duration kSecond = std::chrono::seconds(1);
    const Time full_at = std::max(full_at_, now) + kSecond / per_second;
    if (full_at > now + kSecond) return false;
    full_at_ = full_at;
    return true;
  }

 private:
  Time full_at_;  ///< when as many as a second allows are free again
};

}  // namespace softhca::management::rdma_cm
