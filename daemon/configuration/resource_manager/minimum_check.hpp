// SPDX-License-Identifier: Apache-2.0

// Checks that the minimum rates of a tenant fit into each other. Those of its levels are parts of
// the tenant's own. No minimum may be above the maximum of the same object. Also checks the size of
// a virtual machine's region.
#pragma once

#include <optional>
#include <string>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/live_settings.hpp"

namespace softhca::configuration {

struct WrongMinimum {
  LiveSetting key;
  std::string text;  ///< names the object within the tenant
};
std::optional<WrongMinimum> find_wrong_minimum(const TenantConfig& tenant);
/// Returns what is wrong with the size of a virtual machine's region. Empty: nothing.
std::string find_wrong_region(const TenantConfig& tenant);

}  // namespace softhca::configuration
