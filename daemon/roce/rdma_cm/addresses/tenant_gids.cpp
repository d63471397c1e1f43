// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"

namespace softhca::management::rdma_cm {

const TenantGid* TenantGids::find(const Gid& gid) const {
  for (const TenantGid& own : environment_.addresses())
    if (own.gid == gid) return &own;
  return nullptr;
}

const TenantGid* TenantGids::find_loopback(const SocketAddress& address) const {
  const TenantGid* found = nullptr;
  for (const TenantGid& own : environment_.addresses()) {
    if (own.gid.is_ipv4() != address.address.is_ipv4()) continue;
    if (!own.gid.is_link_local()) return &own;
    if (found == nullptr) found = &own;
  }
  return found;
}

}  // namespace softhca::management::rdma_cm
