// SPDX-License-Identifier: Apache-2.0

// Requests of peers: finds their listeners and makes their identifiers.
//
// A request becomes an identifier at once. Programs cannot name it until GET_EVENT reports it; then
// it belongs to the channel that read the event. It has no uid before it is accepted, and until
// then no events of it are reported, as in Linux.
#pragma once

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"

namespace softhca::management::rdma_cm {

class PeerRequests {
 public:
  /// All outlive it.
  PeerRequests(const ServiceCore& core, const IdentifierListeners& listeners,
               AdmissionControl& admission)
      : environment_(core.environment),
        limits_(core.limits),
        addresses_(core.addresses),
        channels_(core.channels),
        identifiers_(core.identifiers),
        events_(core.events),
        listeners_(listeners),
        admission_(admission) {}
  PeerRequests(const PeerRequests&) = delete;
  PeerRequests& operator=(const PeerRequests&) = delete;

  cm::Answer on_request(const cm::ConnectionRequest& request);
  cm::Answer on_sidr_request(const cm::SidrRequest& request);
  void on_over_limit(cm::OverLimit limit);

 private:
  /// Contents of a request.
  struct Inquiry;
  /// Returns null if the request is not accepted; `why` is then the answer.
  Identifier* find_listener(const Inquiry& inquiry, cm::Answer& why);
  Identifier* admit(const Inquiry& inquiry, cm::Answer& why);
  Identifier& make(const Inquiry& inquiry, const Identifier& listener);
  void report(Identifier& listener, const Identifier& request, rdma_ucm_event_resp response);

  RdmaCmEnvironment& environment_;
  const RdmaCmLimits& limits_;
  const TenantGids& addresses_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  const IdentifierListeners& listeners_;
  AdmissionControl& admission_;
};

}  // namespace softhca::management::rdma_cm
