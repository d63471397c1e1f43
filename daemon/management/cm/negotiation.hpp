// What the two ends of a connection told each other of their queue pairs: by REQ and REP on either
// side (12.9.1, 12.9.2). What one end starts the other answers, so responder resources and
// initiator depth change places.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/cm_messages.hpp"

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

  // Active side: REQ goes, REP comes.
  void request(const ConnectParameters& parameters);
  void take_reply(const wire::CmRep& reply);
  // Passive side: REQ comes, REP goes.
  void take_request(const wire::CmReq& request);
  void accept(const AcceptParameters& parameters);

  /// How the queue pair of this side is brought to INIT, RTR and RTS in a state of the connection.
  QueuePairAttributes attributes(State state, const Path& path) const;
};

/// The number of the queue pair that a REP is from: for an XRC target, its EE context number.
Qpn queue_pair_of(const wire::CmRep& reply, Transport transport);

/// The code of the acknowledge timeout of a path: twice its packet life time and the delay of the
/// acknowledging end.
std::uint8_t ack_timeout_of(std::uint8_t packet_life_time, std::uint8_t ack_delay);

}  // namespace softhca::management::cm
