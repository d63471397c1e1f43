// SPDX-License-Identifier: Apache-2.0

// RESOLVE_IP: finds the tenant's source address for a destination, and whether the neighbour is
// reachable.
#pragma once

#include <set>
#include <utility>

#include "daemon/base/time.hpp"
#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"
#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class AddressResolution {
 public:
  /// All outlive it.
  AddressResolution(RdmaCmEnvironment& environment, const TenantGids& addresses, PortSpaces& ports,
                    AddressBinding& binding, IdentifierTable& identifiers, EventQueues& events)
      : environment_(environment),
        addresses_(addresses),
        ports_(ports),
        binding_(binding),
        identifiers_(identifiers),
        events_(events) {}
  AddressResolution(const AddressResolution&) = delete;
  AddressResolution& operator=(const AddressResolution&) = delete;

  int resolve_ip(const ChannelCommand& command);

  /// Handles the result of RdmaCmEnvironment::resolve(). Results that are no longer awaited are
  /// ignored.
  void resolved(ResolveCookie cookie, bool reachable);
  void expire(Time now);
  Time next_deadline() const { return waiting_.empty() ? kNever : waiting_.begin()->first; }
  /// Waits on for the result that an identifier of an earlier adapter waits for.
  void restore(const Identifier& id);
  /// Stops the identifier's wait for a result.
  void stop(Identifier& id);
  /// Handles changed addresses of the tenant: queues ADDR_CHANGE for identifiers that lost theirs.
  void addresses_changed();

 private:
  int refuse_unreachable(const ChannelCommand& command, const Identifier& id) const;
  int choose_source(const ChannelCommand& command, Identifier& id);
  void found(Identifier& id);
  void not_found(Identifier& id);

  RdmaCmEnvironment& environment_;
  const TenantGids& addresses_;
  PortSpaces& ports_;
  AddressBinding& binding_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  std::set<std::pair<Time, IdentifierNumber>> waiting_;  ///< for a neighbour, by deadline
};

}  // namespace softhca::management::rdma_cm
