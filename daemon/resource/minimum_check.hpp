// Do the minimum rates of a tenant fit into each other? Those of its levels are part of the
// tenant's own, those of TVLs part of that of their level, or of the tenant's where no level has
// them; and none is above a maximum of the same.
#pragma once

#include <optional>
#include <string>

#include "daemon/resource/allocation.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::resource {

struct WrongMinimum {
  Allocation key;
  std::string text;  ///< says of what it is, below the tenant
};
std::optional<WrongMinimum> find_wrong_minimum(const TenantConfig& tenant);

}  // namespace softhca::resource
