// SPDX-License-Identifier: Apache-2.0

// The number of connections that the guarantees of a tenant carry. Each takes pcbs_each PCBs and as
// many completion credits of the guaranteed ones: a command holds both until its acknowledgement.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {

inline constexpr std::uint32_t kCarriesAll = std::numeric_limits<std::uint32_t>::max();

struct Carried {
  std::string level;  ///< empty: the part that belongs to no level
  std::uint32_t connections = kCarriesAll;
  bool shares = true;  ///< more of its connections may use the part that belongs to no level
};

/// Returns the connections that each part of the tenant carries. Credits count only for a part with
/// guaranteed ones. A level without TVLs has none: its programs send on TVLs that it shares.
std::vector<Carried> carried_by(const TenantConfig& tenant);

}  // namespace softhca::configuration
