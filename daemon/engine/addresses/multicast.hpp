// SPDX-License-Identifier: Apache-2.0

// Multicast groups and their members. A datagram to a group goes to the wire and, here, to each
// queue pair attached to it, the sender's own included (docs/decisions.md). The daemon does not
// announce its members to the network. Only control operations change them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/records/queue_pair.hpp"

namespace softhca::engine {

class Multicast {
 public:
  explicit Multicast(const LocalAddresses& addresses) : addresses_(addresses) {}

  /// Makes a UD queue pair a member of a group. False: beyond abi::kMaxMulticast*.
  bool attach(QueuePair& qp, const Gid& group);
  /// Ends a membership. False: the queue pair is not a member.
  bool detach(QueuePair& qp, const Gid& group);
  /// Ends all memberships of a queue pair that is about to be removed.
  void detach_all(QueuePair& qp);

  /// Visits the members that a datagram sent from `port` (none: inside this daemon) reaches without
  /// a wire, until `visit` returns false.
  template <class Visit>
  void for_each_inside(const Gid& group, std::optional<PortId> port, Visit&& visit) const {
    for (QueuePair* member : members(group))
      if (is_reached_inside(*member->tenant, port) && !visit(*member)) return;
  }
  /// Visits the members reached by a datagram from `source` that came by `port`. A datagram of a
  /// local tenant, come back or by another port on the same network, has reached most of them
  /// already.
  template <class Visit>
  void for_each_on(const Gid& group, PortId port, const Gid& source, Visit&& visit) const {
    const bool own = addresses_.is_local(source);
    const std::optional<PortId> sent_by = own ? addresses_.port_of(source) : std::nullopt;
    for (QueuePair* member : members(group))
      if (member->tenant->is_on(port) && !(own && is_reached_inside(*member->tenant, sent_by)))
        visit(*member);
  }

 private:
  static bool is_reached_inside(const Tenant& tenant, std::optional<PortId> port) {
    return !port || tenant.is_on(port) || tenant.is_on(std::nullopt);
  }
  const std::vector<QueuePair*>& members(const Gid& group) const;

  const LocalAddresses& addresses_;
  std::map<Gid, std::vector<QueuePair*>> groups_;
};

}  // namespace softhca::engine
