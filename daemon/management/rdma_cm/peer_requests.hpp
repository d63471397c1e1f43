// Requests of peers: who serves them, and the identifiers they become.
//
// A request becomes an identifier at once, which nobody can name until GET_EVENT reports it: it
// then belongs to the channel that asked. It has no uid before it is accepted, and until then
// nothing is reported of it, as with Linux.
#pragma once

#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/admission_control.hpp"
#include "daemon/management/rdma_cm/channel_table.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/event_queues.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/listeners.hpp"
#include "daemon/management/rdma_cm/local_addresses.hpp"

namespace softhca::management::rdma_cm {

class PeerRequests {
 public:
  /// All outlive it.
  PeerRequests(Environment& environment, const Limits& limits, const LocalAddresses& addresses,
               ChannelTable& channels, IdentifierTable& identifiers, EventQueues& events,
               const Listeners& listeners, AdmissionControl& admission)
      : environment_(environment),
        limits_(limits),
        addresses_(addresses),
        channels_(channels),
        identifiers_(identifiers),
        events_(events),
        listeners_(listeners),
        admission_(admission) {}
  PeerRequests(const PeerRequests&) = delete;
  PeerRequests& operator=(const PeerRequests&) = delete;

  cm::Answer on_request(const cm::Request& request);
  cm::Answer on_sidr_request(const cm::SidrRequest& request);
  void on_over_limit(cm::OverLimit limit);

 private:
  /// What a peer asks for.
  struct Inquiry;
  /// Null: `why` says what to answer.
  Identifier* find_listener(const Inquiry& inquiry, cm::Answer& why);
  Identifier* admit(const Inquiry& inquiry, cm::Answer& why);
  Identifier& make(const Inquiry& inquiry, const Identifier& listener);
  void report(Identifier& listener, const Identifier& request, rdma_ucm_event_resp response);

  Environment& environment_;
  const Limits& limits_;
  const LocalAddresses& addresses_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
  const Listeners& listeners_;
  AdmissionControl& admission_;
};

}  // namespace softhca::management::rdma_cm
