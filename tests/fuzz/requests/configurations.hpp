// SPDX-License-Identifier: Apache-2.0

// Configurations of tenants, and any changes of them that pass the checks of a configuration.
#pragma once

#include "daemon/configuration/config.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::fuzz {

/// Returns a configuration without tenants and addresses, with the pools of Bench.
const configuration::Config& empty_configuration();
/// Adds a tenant with addresses that no other one has, and gives them to the port if it can have
/// them. Does nothing if there are names for no more tenants.
void add_tenant(configuration::Config& config, Input& input);
/// Changes something of the configuration.
void change_something(configuration::Config& config, Input& input);
/// True if load_config() could return it.
bool is_valid(const configuration::Config& config);

}  // namespace softhca::fuzz
