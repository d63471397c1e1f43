// Whose addresses are whose: those of all tenants, on which port or inside this daemon alone.
#pragma once

#include <optional>
#include <vector>

#include "daemon/engine/queue_pair.hpp"

namespace softhca::engine {

class LocalAddresses {
 public:
  void add(Tenant& tenant);
  void remove(Tenant& tenant);
  /// Changes both lists; former addresses are still ours.
  void set(Tenant& tenant, std::vector<Tenant::Address> addresses,
           std::vector<Tenant::Address> former);
  /// The tenant has begun to leave, or stays after all: another that has one of its addresses beats
  /// it, or no more.
  void let_yield(Tenant& tenant, bool yields);
  const std::vector<Tenant*>& tenants() const { return tenants_; }

  /// Can messages to `gid` stay inside this daemon?
  bool is_local(const Gid& gid) const;
  /// The tenant that owns `gid`, on `port` if one is named, or null. A current owner takes
  /// precedence over a former or leaving one.
  Tenant* owner(const Gid& gid, std::optional<PortId> port) const;
  /// Whose it is when a datagram for the queue pair comes to `gid`; null: not its own. One of the
  /// daemon's own, which several clients share, has the addresses of all tenants.
  Tenant* owner_of(const QueuePair& qp, const Gid& gid, std::optional<PortId> port) const;
  /// By which port a tenant of ours sends as `source`; none: by no port.
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
  std::vector<Entry> by_gid_;  ///< sorted; of one GID: those who have it first, then by port
};

}  // namespace softhca::engine
