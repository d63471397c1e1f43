// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/negotiation.hpp"

#include <algorithm>

namespace softhca::management::cm {
namespace {

Transport transport_of(const wire::CmReq& m) {
  switch (m.transport) {
    case wire::CmTransport::kUnreliableConnected:
      return Transport::kUc;
    case wire::CmTransport::kExtended:
      return Transport::kXrc;
    default:
      return Transport::kRc;
  }
}

bool may_connect(State state) {
  switch (state) {
    case State::kRepReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
      return true;
    default:
      return false;
  }
}

bool may_init(State state) {
  return may_connect(state) || state == State::kReqSent || state == State::kMraReqReceived;
}

}  // namespace

void Negotiation::request(const ConnectParameters& p) {
  transport = p.transport;
  local_qpn = p.local_qpn;
  sq_psn = p.starting_psn;
  pkey = p.pkey;
  path_mtu = p.path_mtu;
  responder_resources = p.responder_resources;
  initiator_depth = p.initiator_depth;
  retry_count = p.retry_count;
  rnr_retry_count = p.rnr_retry_count;
  packet_life_time = p.packet_life_time;
  ack_timeout = ack_timeout_of(p.packet_life_time, 0);
}

void Negotiation::take_reply(const wire::CmRep& m) {
  rq_psn = m.starting_psn;
  initiator_depth = m.responder_resources;
  responder_resources = m.initiator_depth;
  rnr_retry_count = m.rnr_retry_count;
  peer_has_srq = m.srq;
  ack_timeout = ack_timeout_of(packet_life_time, m.target_ack_delay);
}

void Negotiation::take_request(const wire::CmReq& m) {
  transport = transport_of(m);
  remote_qpn = m.local_qpn;
  rq_psn = m.starting_psn;
  pkey = m.pkey;
  sl = m.primary.sl;
  path_mtu = m.path_mtu;
  responder_resources = m.initiator_depth;
  initiator_depth = m.responder_resources;
  retry_count = m.retry_count;
  rnr_retry_count = m.rnr_retry_count;
  peer_has_srq = m.srq;
  ack_timeout = std::max<std::uint8_t>(m.primary.local_ack_timeout, 1);
  packet_life_time = static_cast<std::uint8_t>(ack_timeout - 1);
}

void Negotiation::accept(const AcceptParameters& p) {
  local_qpn = p.local_qpn;
  sq_psn = p.starting_psn;
  responder_resources = p.responder_resources;
  initiator_depth = p.initiator_depth;
}

QueuePairAttributes Negotiation::attributes(State state, const Path& path) const {
  return {.may_init = may_init(state),
          .may_connect = may_connect(state),
          .transport = transport,
          .path = path,
          .sl = sl,
          .pkey = pkey,
          .responder_resources = responder_resources,
          .initiator_depth = initiator_depth,
          .path_mtu = path_mtu,
          .remote_qpn = remote_qpn,
          .rq_psn = rq_psn,
          .sq_psn = sq_psn,
          .retry_count = retry_count,
          .rnr_retry_count = rnr_retry_count,
          .ack_timeout = ack_timeout,
          .peer_has_srq = peer_has_srq};
}

Qpn queue_pair_of(const wire::CmRep& reply, Transport transport) {
  return transport == Transport::kXrc ? Qpn(reply.local_eecn) : reply.local_qpn;
}

std::uint8_t ack_timeout_of(std::uint8_t packet_life_time, std::uint8_t ack_delay) {
  // Codes are binary logarithms: the sum of two is the greater, plus one if they are close.
  const int round_trip = packet_life_time + 1;
  const int greater = std::max<int>(round_trip, ack_delay);
  const int lesser = std::min<int>(round_trip, ack_delay);
  return static_cast<std::uint8_t>(std::min(greater + (lesser >= greater - 1), 31));
}

}  // namespace softhca::management::cm
