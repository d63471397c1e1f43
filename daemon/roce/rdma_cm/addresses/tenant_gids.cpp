// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"

#include <netinet/in.h>

#include "daemon/base/address_text.hpp"

namespace softhca::management::rdma_cm {

const TenantGid* TenantGids::find(const Gid& gid) const {
  for (const TenantGid& own : environment_.addresses())
    if (own.gid == gid) return &own;
  return nullptr;
}

bool TenantGids::is_loopback(const SocketAddress& address) const {
  if (!address.is_loopback() || !address.address.is_ipv4()) return address.is_loopback();
  if (address.address.ipv4() == INADDR_LOOPBACK) return true;
  for (const TenantGid& own : environment_.addresses())
    if (own.gid.is_ipv4() && own.gid.ipv4() >> 24 == IN_LOOPBACKNET) return false;
  return true;
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

std::string TenantGids::list(bool ipv4) const {
  AddressList list;
  for (const TenantGid& own : environment_.addresses())
    if (own.gid.is_ipv4() == ipv4) list.add(own.gid);
  return list.text();
}

}  // namespace softhca::management::rdma_cm
