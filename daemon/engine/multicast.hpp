// Multicast groups and their members. A datagram to a group goes to the wire and, here, to each
// queue pair attached to it, the sender's own included (docs/decisions.md). Membership is this
// daemon's alone: it tells nobody on the network of it. Only control operations change it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/local_addresses.hpp"
#include "daemon/engine/queue_pair.hpp"

namespace softhca::engine {

class Multicast {
 public:
  explicit Multicast(const LocalAddresses& addresses) : addresses_(addresses) {}

  /// Makes a UD queue pair a member of a group; false: beyond abi::kMaxMulticast*.
  bool attach(QueuePair& qp, const Gid& group);
  /// False: it is not a member.
  bool detach(QueuePair& qp, const Gid& group);
  /// The queue pair is going.
  void detach_all(QueuePair& qp);

  /// Visits the members that a datagram sent from `port` (none: inside this daemon) reaches without
  /// a wire, until `visit` returns false.
  template <class Visit>
  void for_each_inside(const Gid& group, std::optional<PortId> port, Visit&& visit) const {
    for (QueuePair* member : members(group))
      if (is_reached_inside(*member->tenant, port) && !visit(*member)) return;
  }
  /// Visits the members reached by a datagram from `source` that came by `port`. A datagram of our
  /// own, come back or by another port on the same network, has reached most of them already.
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
