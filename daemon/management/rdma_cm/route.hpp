// The route of an identifier: the path record without the addresses.
#pragma once

#include "daemon/management/cm/parameters.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/identifier.hpp"

namespace softhca::management::rdma_cm {

/// Returns the route given by the adapter and the identifier's options.
Route route_to(const Identifier& id, const Adapter& adapter);

/// Returns the path for the connection manager. REQUIRES: the identifier has a source address.
cm::Path path_of(const Identifier& id, const Adapter& adapter);

}  // namespace softhca::management::rdma_cm
