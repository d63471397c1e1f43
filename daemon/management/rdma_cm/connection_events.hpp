// Turns the events of the connection manager into events for programs.
#pragma once

#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/admission_control.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/event_queues.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/local_addresses.hpp"

namespace softhca::management::rdma_cm {

class ConnectionEvents {
 public:
  /// All outlive it.
  ConnectionEvents(Environment& environment, const LocalAddresses& addresses,
                   IdentifierTable& identifiers, EventQueues& events, AdmissionControl& admission)
      : environment_(environment),
        addresses_(addresses),
        identifiers_(identifiers),
        events_(events),
        admission_(admission) {}
  ConnectionEvents(const ConnectionEvents&) = delete;
  ConnectionEvents& operator=(const ConnectionEvents&) = delete;

  void on_event(const cm::Event& event);

 private:
  void replied(Identifier& id, const wire::CmRep& rep);
  void established(Identifier& id, Time now);
  void rejected(Identifier& id, const wire::CmRej& rej);
  void unreachable(Identifier& id, cm::State state);
  void disconnected(Identifier& id, int status);
  void time_wait_over(Identifier& id);
  void sidr_replied(Identifier& id, const wire::CmSidrRep& rep, Time now);

  Environment& environment_;
  const LocalAddresses& addresses_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  AdmissionControl& admission_;
};

}  // namespace softhca::management::rdma_cm
