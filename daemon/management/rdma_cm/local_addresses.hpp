// The tenant's own addresses, as identifiers are bound to them.
#pragma once

#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/socket_address.hpp"

namespace softhca::management::rdma_cm {

class LocalAddresses {
 public:
  /// `environment` outlives it.
  explicit LocalAddresses(const Environment& environment) : environment_(environment) {}

  /// Null: the address is not the tenant's.
  const LocalAddress* find(const Gid& gid) const;
  bool has(const Gid& gid) const { return find(gid) != nullptr; }
  /// What a loopback or "any" address of a family stands for: the first address of that family,
  /// one that is not link-local if there is one. Null: none.
  const LocalAddress* find_loopback(const SocketAddress& address) const;

 private:
  const Environment& environment_;
};

}  // namespace softhca::management::rdma_cm
