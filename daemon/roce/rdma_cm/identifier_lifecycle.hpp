// SPDX-License-Identifier: Apache-2.0

// CREATE_ID and DESTROY_ID, and the release of all resources of an identifier.
#pragma once

#include "daemon/roce/rdma_cm/addresses/address_resolution.hpp"
#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"
#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/multicast_joins.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"

namespace softhca::management::rdma_cm {

class IdentifierLifecycle {
 public:
  /// The parts that hold resources of identifiers.
  struct Parts {
    PortSpaces& ports;
    AddressResolution& resolution;
    IdentifierListeners& listeners;
    MulticastJoins& multicast;
    AdmissionControl& admission;
    ConnectionCommands& connections;
  };

  /// All outlive it.
  IdentifierLifecycle(const ServiceCore& core, const Parts& parts)
      : environment_(core.environment),
        limits_(core.limits),
        channels_(core.channels),
        identifiers_(core.identifiers),
        events_(core.events),
        parts_(parts) {}
  IdentifierLifecycle(const IdentifierLifecycle&) = delete;
  IdentifierLifecycle& operator=(const IdentifierLifecycle&) = delete;

  int create_id(const ChannelCommand& command);
  int destroy_id(const ChannelCommand& command);

  /// Destroys some identifiers of a channel. Returns true if none are left.
  bool destroy_some(Channel& channel, Time now);
  /// Removes the adapter, see Service. The identifiers are notified in parts.
  void device_removed() { removed_ = true; }
  /// True if identifiers are still to be notified.
  bool is_removing() const { return removed_ && next_removed_ < identifiers_.slots(); }
  void remove_some(Time now);
  bool is_removed() const { return removed_; }

 private:
  void destroy(Identifier& id, Time now);
  /// Ends listening, resolving and the connection of the identifier; notifies its peer.
  void stop(Identifier& id, Time now);

  RdmaCmEnvironment& environment_;
  const RdmaCmLimits& limits_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  const Parts parts_;
  bool removed_ = false;
  std::uint32_t next_removed_ = 0;  ///< first identifier not yet notified
};

}  // namespace softhca::management::rdma_cm
