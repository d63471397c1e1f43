// CREATE_ID and DESTROY_ID, and the end of identifiers with all that they have.
#pragma once

#include "daemon/management/rdma_cm/address_resolution.hpp"
#include "daemon/management/rdma_cm/admission_control.hpp"
#include "daemon/management/rdma_cm/channel_table.hpp"
#include "daemon/management/rdma_cm/command.hpp"
#include "daemon/management/rdma_cm/connection_commands.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/event_queues.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/listeners.hpp"
#include "daemon/management/rdma_cm/multicast.hpp"
#include "daemon/management/rdma_cm/port_spaces.hpp"

namespace softhca::management::rdma_cm {

class IdentifierLifecycle {
 public:
  /// What identifiers may have, and must give back.
  struct Parts {
    PortSpaces& ports;
    AddressResolution& resolution;
    Listeners& listeners;
    Multicast& multicast;
    AdmissionControl& admission;
    ConnectionCommands& connections;
  };

  /// All outlive it.
  IdentifierLifecycle(Environment& environment, const Limits& limits, ChannelTable& channels,
                      IdentifierTable& identifiers, EventQueues& events, const Parts& parts)
      : environment_(environment),
        limits_(limits),
        channels_(channels),
        identifiers_(identifiers),
        events_(events),
        parts_(parts) {}
  IdentifierLifecycle(const IdentifierLifecycle&) = delete;
  IdentifierLifecycle& operator=(const IdentifierLifecycle&) = delete;

  int create_id(const Command& command);
  int destroy_id(const Command& command);

  /// Destroys some identifiers of a channel. True: it has none left.
  bool destroy_some(Channel& channel, Time now);
  /// The adapter goes away, see Service. Its identifiers are told in turns.
  void device_removed() { removed_ = true; }
  /// Identifiers are still to be told.
  bool is_removing() const { return removed_ && next_removed_ < identifiers_.slots(); }
  void remove_some(Time now);
  bool is_removed() const { return removed_; }

 private:
  void destroy(Identifier& id, Time now);
  /// The identifier no longer listens, resolves or is connected; its peer is told.
  void stop(Identifier& id, Time now);

  Environment& environment_;
  const Limits& limits_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  const Parts parts_;
  bool removed_ = false;
  std::uint32_t next_removed_ = 0;  ///< the first identifier that has not been told
};

}  // namespace softhca::management::rdma_cm
