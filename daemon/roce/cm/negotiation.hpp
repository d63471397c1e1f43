// SPDX-License-Identifier: Apache-2.0

// Queue pair data that the two ends of a connection exchange with REQ and REP (12.9.1, 12.9.2). The
// requests that one end initiates, the other end answers, so responder resources and initiator
// depth are swapped.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/wire/cm_messages.hpp"

namespace softhca::management::cm {

struct Negotiation {
  Transport transport = Transport::kRc;
  Qpn local_qpn;
  Qpn remote_qpn;
  Psn sq_psn;
  Psn rq_psn;
  std::uint16_t pkey = 0xffff;
  std::uint8_t sl = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t packet_life_time = 0;
  std::uint8_t ack_timeout = 0;
  bool peer_has_srq = false;

  // Active side: REQ is sent, REP received.
  void request(const ConnectParameters& parameters);
  void take_reply(const wire::CmRep& reply);
  // Passive side: REQ is received, REP sent.
  void take_request(const wire::CmReq& request);
  void accept(const AcceptParameters& parameters);

  /// Returns the attributes that bring the queue pair of this side to INIT, RTR and RTS in this
  /// state of the connection.
  QueuePairAttributes attributes(State state, const Path& path) const;
};

/// Returns the queue pair number of a REP: for an XRC target, its EE context number.
Qpn queue_pair_of(const wire::CmRep& reply, Transport transport);

/// Returns the code of the acknowledge timeout of a path: twice the packet life time plus the delay
/// of the acknowledging end.
std::uint8_t ack_timeout_of(std::uint8_t packet_life_time, std::uint8_t ack_delay);

}  // namespace softhca::management::cm
