// SPDX-License-Identifier: Apache-2.0

// The tenant's own addresses that identifiers are bound to.
#pragma once

#include <string>

#include "daemon/roce/rdma_cm/addresses/socket_address.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class TenantGids {
 public:
  /// `environment` outlives it.
  explicit TenantGids(const RdmaCmEnvironment& environment) : environment_(environment) {}

  /// Returns null if the address is not the tenant's.
  const TenantGid* find(const Gid& gid) const;
  bool has(const Gid& gid) const { return find(gid) != nullptr; }
  /// True if the address stands for the tenant itself. A tenant with an address of 127.0.0.0/8 has
  /// peers there, too; to it, only 127.0.0.1 stands for itself.
  bool is_loopback(const SocketAddress& address) const;
  /// Returns the address that replaces a loopback or "any" address: the first one of that family,
  /// preferably not link-local. Null: none.
  const TenantGid* find_loopback(const SocketAddress& address) const;
  /// Returns the addresses of a family as text: "10.0.0.1, 10.0.0.2".
  std::string list(bool ipv4) const;

 private:
  const RdmaCmEnvironment& environment_;
};

}  // namespace softhca::management::rdma_cm
