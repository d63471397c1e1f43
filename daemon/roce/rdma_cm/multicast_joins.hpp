// SPDX-License-Identifier: Apache-2.0

// JOIN_IP_MCAST and LEAVE_MCAST. Attaching a queue pair joins the group on the wire; these commands
// only give a program the group's address and key.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "daemon/roce/rdma_cm/addresses/tenant_addresses.hpp"
#include "daemon/roce/rdma_cm/command.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"

namespace softhca::management::rdma_cm {

class Multicast {
 public:
  /// All outlive it.
  explicit Multicast(const ServiceCore& core)
      : environment_(core.environment),
        limits_(core.limits),
        addresses_(core.addresses),
        identifiers_(core.identifiers),
        events_(core.events) {}
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  int join(const Command& command);
  int leave(const Command& command);

  /// Counts a reported event of a membership. REQUIRES: the membership exists.
  void event_reported(MembershipNumber number) { ++memberships_.at(number).events_reported; }
  /// Ends all memberships of an identifier.
  void leave_all(const Identifier& id);
  std::size_t memberships() const { return memberships_.size(); }

 private:
  MembershipNumber add(Identifier& id, std::uint64_t uid);

  Environment& environment_;
  const Limits& limits_;
  const LocalAddresses& addresses_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  std::unordered_map<MembershipNumber, Membership> memberships_;
  std::uint32_t next_number_ = 0;
};

}  // namespace softhca::management::rdma_cm
