// SPDX-License-Identifier: Apache-2.0

// When idle guarantees of tenants are lent (mechanism A10).
#pragma once

#include <chrono>

namespace softhca::configuration {

struct AdjustmentConfig {
  bool automatic = false;
  std::chrono::seconds idle{10};  ///< lent after this time without use

  bool operator==(const AdjustmentConfig&) const = default;
};

}  // namespace softhca::configuration
