// SPDX-License-Identifier: Apache-2.0

// The amounts and the share of the engine that each tenant and level can rely on, as far as they
// follow from the configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/configuration/resource_manager/resource_manager.hpp"

namespace softhca::configuration {

struct ExpectedAmount {
  std::uint64_t guaranteed = 0;
  /// The most it may have while no other tenant or level uses the shared amounts. Guarantees that
  /// others lend ([adjustment]) are not counted.
  std::uint64_t ceiling = 0;

  bool operator==(const ExpectedAmount&) const = default;
};

struct ExpectedShare {
  std::string tenant;
  std::string level;  ///< empty: the tenant as a whole
  ExpectedAmount vcbs, pcbs, tvls, execution_credits, completion_credits;
  /// The weight in the engine's time: that of a tenant among the tenants, or of a level among the
  /// levels of its tenant. A level without TVLs of its own has weight 1.
  std::uint32_t weight = 1;
  std::uint64_t weights = 1;  ///< the sum of all these weights
  /// The part of the engine's time while all have work, from 0 to 1. For a level it is a part of
  /// the tenant's time.
  double engine = 1;

  bool operator==(const ExpectedShare&) const = default;
};

/// Returns the shares of each tenant, in the order of the configuration: the tenant, then its
/// levels. `held`: amounts that are not available because removed tenants or levels still hold
/// them.
std::vector<ExpectedShare> expected_shares(const Config& config, const Held& held = {});

}  // namespace softhca::configuration
