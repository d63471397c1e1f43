// SPDX-License-Identifier: Apache-2.0

// The route of an identifier: the path record without the addresses.
#pragma once

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/rdma_cm/identifier.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

/// Returns the route given by the adapter and the identifier's options.
ResolvedRoute route_to(const Identifier& id, const TenantAdapter& adapter);

/// Returns the path for the connection manager. REQUIRES: the identifier has a source address.
cm::Path path_of(const Identifier& id, const TenantAdapter& adapter);

}  // namespace softhca::management::rdma_cm
