// How many connections the guarantees of a tenant carry: each takes pcbs_each PCBs and
// completion_credits_each credits of what is guaranteed.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/resource/config.hpp"

namespace softhca::resource {

inline constexpr std::uint32_t kCarriesAll = std::numeric_limits<std::uint32_t>::max();

struct Carried {
  std::string level;  ///< empty: what no level has of its own
  std::uint32_t connections = kCarriesAll;
  bool shares = true;  ///< more of its connections may be carried by what no level has of its own
};

/// A level without TVLs of its own is not asked for credits: its programs send by TVLs that it has
/// in common with others.
std::vector<Carried> carried_by(const TenantConfig& tenant);

}  // namespace softhca::resource
