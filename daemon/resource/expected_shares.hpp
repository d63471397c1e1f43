// What every tenant and level may count on under a configuration: amounts and its share of the
// engine, as far as they follow from the configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/resource/resource_manager.hpp"

namespace softhca::resource {

struct ExpectedAmount {
  std::uint64_t guaranteed = 0;
  /// The most it may have while nobody else draws on what is shared. Guarantees that others lend
  /// ([adjustment]) are not counted.
  std::uint64_t ceiling = 0;

  bool operator==(const ExpectedAmount&) const = default;
};

struct ExpectedShare {
  std::string tenant;
  std::string level;  ///< empty: the tenant as a whole
  ExpectedAmount vcbs, pcbs, tvls, execution_credits, completion_credits;
  /// In the engine's time: of a tenant among the tenants, of a level among the levels of its
  /// tenant. A level without TVLs of its own weighs 1.
  std::uint32_t weight = 1;
  std::uint64_t weights = 1;  ///< the sum of all these
  /// Of the engine's time while all of them have work, 0 to 1; of a level, a part of its tenant's.
  double engine = 1;

  bool operator==(const ExpectedShare&) const = default;
};

/// For each tenant, in the order of the configuration: the tenant, then its levels. `held`: what is
/// not there for them because tenants or levels that were removed still have it.
std::vector<ExpectedShare> expected_shares(const Config& config, const Held& held = {});

}  // namespace softhca::resource
