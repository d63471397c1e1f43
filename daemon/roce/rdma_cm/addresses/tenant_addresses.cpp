// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/tenant_addresses.hpp"

namespace softhca::management::rdma_cm {

const LocalAddress* LocalAddresses::find(const Gid& gid) const {
  for (const LocalAddress& own : environment_.addresses())
    if (own.gid == gid) return &own;
  return nullptr;
}

const LocalAddress* LocalAddresses::find_loopback(const SocketAddress& address) const {
  const LocalAddress* found = nullptr;
  for (const LocalAddress& own : environment_.addresses()) {
    if (own.gid.is_ipv4() != address.address.is_ipv4()) continue;
    if (!own.gid.is_link_local()) return &own;
    if (found == nullptr) found = &own;
  }
  return found;
}

}  // namespace softhca::management::rdma_cm
