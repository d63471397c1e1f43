// SPDX-License-Identifier: Apache-2.0

// The performance agent of each tenant's port: a client of general services.
#pragma once

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

/// Adds the agent of a tenant. Error: no buffers are left for another client of general services.
Outcome add_performance_agent(GeneralServices& agent, const Adapter& adapter,
                              const engine::Tenant& tenant);
void remove_performance_agent(GeneralServices& agent, const engine::Tenant& tenant);

}  // namespace softhca::control
