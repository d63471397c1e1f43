// SPDX-License-Identifier: Apache-2.0

// The addresses of all tenants: the tenant of each, and its port, or none if it is inside this
// daemon alone.
#pragma once

#include <optional>
#include <vector>

#include "daemon/engine/records/queue_pair.hpp"

namespace softhca::engine {

class LocalAddresses {
 public:
  void add(Tenant& tenant);
  void remove(Tenant& tenant);
  /// Changes both lists; former addresses are still local.
  void set(Tenant& tenant, std::vector<Tenant::Address> addresses,
           std::vector<Tenant::Address> former);
  /// Notes that the tenant has begun to leave (`yields`), or stays after all. While it yields,
  /// another tenant with the same address takes precedence.
  void let_yield(Tenant& tenant, bool yields);
  const std::vector<Tenant*>& tenants() const { return tenants_; }

  /// True if messages to `gid` can stay inside this daemon.
  bool is_local(const Gid& gid) const;
  /// Returns the tenant that owns `gid`, on `port` if one is named, or null. A current owner takes
  /// precedence over a former or leaving one.
  Tenant* owner(const Gid& gid, std::optional<PortId> port) const;
  /// Returns the tenant that a datagram to `gid` for the queue pair is for; null: the address is
  /// not that of the queue pair's device. A queue pair that several clients share has the addresses
  /// of all tenants.
  Tenant* owner_of(const QueuePair& qp, const Gid& gid, std::optional<PortId> port) const;
  /// Returns the port by which a local tenant sends as `source`; nothing: by no port.
  std::optional<PortId> port_of(const Gid& source) const;

 private:
  struct Entry {
    Gid gid;
    std::optional<PortId> port;
    Tenant* tenant;
    bool former;
  };
  using Place = std::vector<Entry>::const_iterator;

  void rebuild();
  Place first(const Gid& gid) const;

  std::vector<Tenant*> tenants_;
  std::vector<Entry> by_gid_;  ///< sorted by GID, then current owners first, then by port
};

}  // namespace softhca::engine
