// SPDX-License-Identifier: Apache-2.0

// A configuration as JSON, by the names of its keys: what is in force, for the adapter that
// follows. An adapter of another version ignores keys that it does not have, and gives others their
// defaults.
#pragma once

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/sub_allocation.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

Json to_json(const configuration::Config& config);
Json to_json(const configuration::TenantConfig& tenant);
Json to_json(const configuration::LevelConfig& level);
Json to_json(const configuration::LevelRules& rules);

/// Read what the functions above return. May throw what reading a Json of the wrong shape throws,
/// and std::invalid_argument for a value that is none of its key.
configuration::Config config_of(const Json& json);
configuration::TenantConfig tenant_config_of(const Json& json);
configuration::LevelConfig level_config_of(const Json& json);
configuration::LevelRules level_rules_of(const Json& json);

}  // namespace softhca::control
