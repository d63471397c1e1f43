// SPDX-License-Identifier: Apache-2.0

// JOIN_IP_MCAST and LEAVE_MCAST. Attaching a queue pair joins the group on the wire; these commands
// only give a program the group's address and key.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"

namespace softhca::management::rdma_cm {

class MulticastJoins {
 public:
  /// All outlive it.
  explicit MulticastJoins(const ServiceCore& core)
      : environment_(core.environment),
        limits_(core.limits),
        addresses_(core.addresses),
        identifiers_(core.identifiers),
        events_(core.events),
        touched_(core.environment.records()) {}
  MulticastJoins(const MulticastJoins&) = delete;
  MulticastJoins& operator=(const MulticastJoins&) = delete;

  int join(const ChannelCommand& command);
  int leave(const ChannelCommand& command);

  /// Counts a reported event of a membership. REQUIRES: the membership exists.
  void event_reported(MembershipNumber number) {
    touched_.add(number.value);
    ++memberships_.at(number).events_reported;
  }
  /// Ends all memberships of an identifier.
  void leave_all(const Identifier& id);
  std::size_t memberships() const { return memberships_.size(); }
  bool has(MembershipNumber number) const { return memberships_.contains(number); }

  /// Records the memberships that may have changed.
  void record_changes();
  /// Adds a membership of an earlier adapter by its record. Returns false if the record does not
  /// fit. REQUIRES: the identifiers are restored.
  bool restore(MembershipNumber number, std::span<const std::byte> state);

 private:
  MembershipNumber add(Identifier& id, std::uint64_t uid);

  RdmaCmEnvironment& environment_;
  const RdmaCmLimits& limits_;
  const TenantGids& addresses_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  std::unordered_map<MembershipNumber, Membership> memberships_;
  std::uint32_t next_number_ = 0;
  cm::Touched touched_;
};

}  // namespace softhca::management::rdma_cm
