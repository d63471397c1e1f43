// SPDX-License-Identifier: Apache-2.0

// Turns the events of the connection manager into events for programs.
#pragma once

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class ConnectionEvents {
 public:
  /// All outlive it.
  ConnectionEvents(RdmaCmEnvironment& environment, const TenantGids& addresses,
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

  RdmaCmEnvironment& environment_;
  const TenantGids& addresses_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  AdmissionControl& admission_;
};

}  // namespace softhca::management::rdma_cm
