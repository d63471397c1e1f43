// SPDX-License-Identifier: Apache-2.0

// The counters of the port of a tenant's device, in the terms of IBA 16.1.3.5 (PortCounters). The
// files of the device tree and the performance agent show them.
#pragma once

#include <memory>
#include <vector>

#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/roce/performance/pma_counters.hpp"

namespace softhca::counters {

/// Returns the current counters. Data and packets are those of the tenant's own queue pairs.
/// Packets to other queue pairs of this daemon pass no port and do not count. An error that a port
/// finds before the tenant of the packet is known counts for every tenant that has an address
/// there. REQUIRES: called on the control thread or the engine's thread, since `tenant.addresses`
/// must not change.
management::PmaCounters port_counters_of(
    const engine::Tenant& tenant, const std::vector<std::unique_ptr<engine::PortBinding>>& ports);

}  // namespace softhca::counters
