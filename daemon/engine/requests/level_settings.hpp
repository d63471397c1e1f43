// SPDX-License-Identifier: Apache-2.0

// The settings of a level in the configuration of its tenant, found by the level's name.
#pragma once

#include <span>

#include "daemon/configuration/config.hpp"

namespace softhca::engine {

struct Level;

/// Returns the settings of a level. Null: this configuration does not have the level.
const configuration::LevelConfig* settings_of(const configuration::TenantConfig& config,
                                              const Level& level);

/// True if the TVLs of a level, or (null) those of no level, may use shared credits.
bool may_share(const configuration::TenantConfig& config, const Level* level);

/// Returns the TVLs of a level of the tenant, or (null) those of no level.
std::span<const configuration::TvlConfig> tvls_of(const configuration::TenantConfig& config,
                                                  const Level* level);

/// Sets the service levels and traffic classes that move queue pairs to a level. Null: none do.
void set_rules(Level& level, const configuration::LevelConfig* config);

}  // namespace softhca::engine
