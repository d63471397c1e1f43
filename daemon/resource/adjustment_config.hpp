// When guarantees that tenants leave idle are lent (mechanism A10).
#pragma once

#include <chrono>

namespace softhca::resource {

struct AdjustmentConfig {
  bool automatic = false;
  std::chrono::seconds idle{10};  ///< not in use for this long
  double keep = 0.1;              ///< of a guarantee: not lent beyond what was in use

  bool operator==(const AdjustmentConfig&) const = default;
};

}  // namespace softhca::resource
