// What comes from the wire: which connection a message is for, and what it says about it. A
// message must name both communication ids and come from the peer's address; only the first
// answer to a REQ cannot name one that its sender just made.
#include <algorithm>
#include <chrono>

#include "daemon/base/endian.hpp"
#include "daemon/management/cm/compose.hpp"
#include "daemon/management/cm/manager.hpp"

namespace softhca::management::cm {
namespace {

using wire::CmRejectReason;

/// How long an answer is remembered for a question asked again: the question names no time; Linux
/// asks every 4.1 s.
constexpr Duration kSidrReplyKept = std::chrono::seconds(10);

bool same_ends(const Path& a, const Path& b) { return a.local == b.local && a.remote == b.remote; }

/// Why a REQ cannot be served, whoever listens.
std::optional<CmRejectReason> defect_of(const wire::CmReq& m, const Path& path) {
  const bool xrc = m.transport == wire::CmTransport::kExtended && m.extended_transport == 1;
  if (m.transport != wire::CmTransport::kReliableConnected &&
      m.transport != wire::CmTransport::kUnreliableConnected && !xrc)
    return CmRejectReason::kInvalidTransportType;
  if (m.path_mtu < 1 || m.path_mtu > 5) return CmRejectReason::kInvalidPathMtu;
  if (m.primary.local_gid != path.remote || m.primary.remote_gid != path.local)
    return CmRejectReason::kInvalidPrimaryGid;
  return std::nullopt;
}

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

/// What goes from one end goes to the other: depth and resources change places.
void take_over(Connection& c, const wire::CmReq& m, std::uint64_t transaction_id) {
  c.transaction_id = transaction_id;
  c.remote_comm_id = m.local_comm_id;
  c.remote_ca_guid = m.local_ca_guid;
  c.service_id = m.service_id;
  c.path.flow_label = m.primary.flow_label;
  c.path.traffic_class = m.primary.traffic_class;
  if (m.primary.hop_limit != 0) c.path.hop_limit = m.primary.hop_limit;
  c.transport = transport_of(m);
  c.remote_qpn = m.local_qpn;
  c.rq_psn = m.starting_psn;
  c.pkey = m.pkey;
  c.sl = m.primary.sl;
  c.path_mtu = m.path_mtu;
  c.responder_resources = m.initiator_depth;
  c.initiator_depth = m.responder_resources;
  c.retry_count = m.retry_count;
  c.rnr_retry_count = m.rnr_retry_count;
  c.peer_has_srq = m.srq;
  c.max_retries = m.max_cm_retries;
  c.ack_timeout = std::max<std::uint8_t>(m.primary.local_ack_timeout, 1);
  c.packet_life_time = static_cast<std::uint8_t>(c.ack_timeout - 1);
}

}  // namespace

void Manager::receive(std::span<const std::byte> mad, const Path& path, Qpn source, Time now) {
  ++counters_.received;
  // A program's own queue pair does not speak for its machine.
  if (source.value != wire::kGeneralServicesQpn) {
    ++counters_.wrong_source;
    return;
  }
  const auto header = wire::decode_mad_header(mad);
  if (!header || header->management_class != wire::ManagementClass::kCommunication ||
      header->class_version != wire::kCmClassVersion ||
      header->method != wire::MadMethod::kSendMessage) {
    ++counters_.malformed;
    return;
  }
  dispatch(*header, mad.first<wire::kMadBytes>(), path, now);
}

void Manager::dispatch(const wire::MadHeader& header,
                       std::span<const std::byte, wire::kMadBytes> mad, const Path& path,
                       Time now) {
  const std::uint64_t id = header.transaction_id;
  switch (wire::CmAttribute{header.attribute_id}) {
    case wire::CmAttribute::kReq:
      return receive_req(wire::decode_cm<wire::CmReq>(mad), id, path, now);
    case wire::CmAttribute::kRep:
      return receive_rep(wire::decode_cm<wire::CmRep>(mad), id, path, now);
    case wire::CmAttribute::kMra:
      return receive_mra(wire::decode_cm<wire::CmMra>(mad), path, now);
    case wire::CmAttribute::kRej:
      return receive_rej(wire::decode_cm<wire::CmRej>(mad), path, now);
    case wire::CmAttribute::kDreq:
      return receive_dreq(wire::decode_cm<wire::CmDreq>(mad), id, path, now);
    case wire::CmAttribute::kSidrReq:
      return receive_sidr_req(wire::decode_cm<wire::CmSidrReq>(mad), id, path, now);
    case wire::CmAttribute::kSidrRep:
      return receive_sidr_rep(wire::decode_cm<wire::CmSidrRep>(mad), path, now);
    case wire::CmAttribute::kRtu: {
      const auto m = wire::decode_cm<wire::CmRtu>(mad);
      const Event event{.rtu = &m};
      return receive_for(m, Input::kRtu, path, now, {.message = &event});
    }
    case wire::CmAttribute::kDrep: {
      const auto m = wire::decode_cm<wire::CmDrep>(mad);
      const Event event{.drep = &m};
      return receive_for(m, Input::kDrep, path, now, {.message = &event});
    }
    case wire::CmAttribute::kLap:
      return receive_for(wire::decode_cm<wire::CmLap>(mad), Input::kLap, path, now,
                         {.transaction_id = id});
    default:  // APR too: this side never sends LAP
      ++counters_.malformed;
  }
}

Connection* Manager::find_match(std::uint32_t local, std::uint32_t remote, const Path& path) {
  Connection* c = connections_.find(CommId(local));
  if (c == nullptr || c->is_question() || !same_ends(c->path, path)) return nullptr;
  return c->remote_comm_id == remote ? c : nullptr;
}

template <class Message>
void Manager::receive_for(const Message& m, Input input, const Path& path, Time now,
                          const Details& details) {
  Connection* c = find_match(m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr || c->remote_comm_id == 0) {
    ++counters_.unknown;
    return;
  }
  const State before = c->state;
  if (!run(*c, input, now, details))
    ++counters_.unexpected;
  else if (input == Input::kRtu && before == State::kEstablished)
    ++counters_.duplicates;
}

// --- REQ

void Manager::receive_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                          Time now) {
  if (m.local_comm_id == 0) {
    ++counters_.malformed;
    return;
  }
  if (Connection* c = connections_.find_peer({path.remote, m.local_ca_guid, m.local_comm_id})) {
    ++counters_.duplicates;
    if (c->active || !same_ends(c->path, path) || !run(*c, Input::kReq, now, {}))
      ++counters_.unexpected;
    return;
  }
  if (const auto reason = defect_of(m, path))
    return refuse_req(m, transaction_id, path, *reason, now);
  if (Connection* old = connections_.find_queue_pair({path.remote, m.local_ca_guid, m.local_qpn})) {
    ++counters_.stale;
    refuse_req(m, transaction_id, path, CmRejectReason::kStaleConnection, now);
    run(*old, Input::kStale, now, {});
    return;
  }
  offer_req(m, transaction_id, path, now);
}

/// For what a peer asks. Null: there is no place.
Connection* Manager::make_half_open(const Path& path, State state) {
  const bool too_many = !connections_.may_open_half(path.remote, limits_.half_open);
  Connection* c = too_many ? nullptr : make_connection(path, state);
  if (c != nullptr) return c;
  ++counters_.requests_over_limit;
  user_.on_over_limit(too_many ? OverLimit::kHalfOpen : OverLimit::kConnections);
  return nullptr;
}

void Manager::offer_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                        Time now) {
  Connection* c = make_half_open(path, State::kReqReceived);
  if (c == nullptr) return;
  take_over(*c, m, transaction_id);
  c->response_timeout = bounded(duration_of(m.local_response_timeout));
  c->linger =
      bounded(2 * (duration_of(m.remote_response_timeout) + 2 * duration_of(c->packet_life_time)));
  connections_.list_peer(*c);
  connections_.list_queue_pair(*c);
  const CommId id = c->id;
  const Answer answer = user_.on_request({id, c->path, m});
  c = connections_.find(id);
  if (c == nullptr) return;
  if (answer.kind == Answer::Kind::kTake) {
    c->cookie = answer.cookie;
    return;
  }
  connections_.remove(*c);
  if (answer.kind == Answer::Kind::kRefuse) {
    ++counters_.requests_refused;
    refuse_req(m, transaction_id, path, answer.reason, now);
  }
}

void Manager::refuse_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                         CmRejectReason reason, Time now) {
  if (!may_reply_stateless(now)) return;
  const wire::CmRej rej{
      .remote_comm_id = m.local_comm_id, .message = wire::CmMessage::kReq, .reason = reason};
  send(path, wire::encode_cm(rej, transaction_id));
}

// --- REP

void Manager::receive_rep(const wire::CmRep& m, std::uint64_t transaction_id, const Path& path,
                          Time now) {
  Connection* c = connections_.find(CommId(m.remote_comm_id));
  const bool ours = c != nullptr && !c->is_question() && same_ends(c->path, path);
  if (ours && c->remote_comm_id == 0 && m.local_comm_id != 0) {
    if (!take_rep(*c, m, path, now)) ++counters_.unexpected;
    return;
  }
  if (ours && c->remote_comm_id == m.local_comm_id) {
    ++counters_.duplicates;
    if (!c->active || !run(*c, Input::kRep, now, {})) ++counters_.unexpected;
    return;
  }
  ++counters_.unknown;
  if (!may_reply_stateless(now)) return;
  const wire::CmRej rej{.local_comm_id = m.remote_comm_id,
                        .remote_comm_id = m.local_comm_id,
                        .message = wire::CmMessage::kRep,
                        .reason = CmRejectReason::kInvalidCommId};
  send(path, wire::encode_cm(rej, transaction_id));
}

/// The first REP. False: another connection has the peer's name for this one.
bool Manager::take_rep(Connection& c, const wire::CmRep& m, const Path& path, Time now) {
  if (connections_.find_peer({path.remote, m.local_ca_guid, m.local_comm_id}) != nullptr)
    return false;
  const Qpn qpn = c.transport == Transport::kXrc ? Qpn(m.local_eecn) : m.local_qpn;
  c.remote_comm_id = m.local_comm_id;
  c.remote_ca_guid = m.local_ca_guid;
  c.remote_qpn = qpn;
  if (Connection* old = connections_.find_queue_pair({path.remote, m.local_ca_guid, qpn})) {
    ++counters_.stale;
    const CommId old_id = old->id;
    const wire::CmRej rej{.local_comm_id = c.id.value,
                          .remote_comm_id = m.local_comm_id,
                          .message = wire::CmMessage::kRep,
                          .reason = CmRejectReason::kStaleConnection};
    send(path, wire::encode_cm(rej, c.transaction_id));
    const Event event{.rej = &rej};
    run(c, Input::kRej, now, {.message = &event});
    if (Connection* still = connections_.find(old_id)) run(*still, Input::kStale, now, {});
    return true;
  }
  connections_.list_peer(c);
  connections_.list_queue_pair(c);
  c.rq_psn = m.starting_psn;
  c.initiator_depth = m.responder_resources;
  c.responder_resources = m.initiator_depth;
  c.rnr_retry_count = m.rnr_retry_count;
  c.peer_has_srq = m.srq;
  c.ack_timeout = ack_timeout_of(c.packet_life_time, m.target_ack_delay);
  const Event event{.rep = &m};
  return run(c, Input::kRep, now, {.message = &event});
}

// --- MRA, REJ, DREQ

void Manager::receive_mra(const wire::CmMra& m, const Path& path, Time now) {
  Connection* c = connections_.find(CommId(m.remote_comm_id));
  if (c == nullptr || c->is_question() || !same_ends(c->path, path) ||
      (c->remote_comm_id != 0 && c->remote_comm_id != m.local_comm_id)) {
    ++counters_.unknown;
    return;
  }
  const auto about = c->active ? wire::CmMessage::kReq : wire::CmMessage::kRep;
  const Event event{.mra = &m};
  if (m.message != about ||
      !run(*c, Input::kMra, now, {.service_timeout = m.service_timeout, .message = &event}))
    ++counters_.unexpected;
}

Connection* Manager::find_rejected(const wire::CmRej& m, const Path& path) {
  Connection* c = connections_.find(CommId(m.remote_comm_id));
  if (c != nullptr) {
    if (c->is_question() || !same_ends(c->path, path)) return nullptr;
    return c->remote_comm_id == 0 || c->remote_comm_id == m.local_comm_id ? c : nullptr;
  }
  // A peer that gives up its REQ knows no id of ours.
  if (m.remote_comm_id != 0 || m.reason != CmRejectReason::kTimeout) return nullptr;
  c = connections_.find_peer({path.remote, load_be<std::uint64_t>(m.info.data()), m.local_comm_id});
  return c != nullptr && c->is_half_open() && same_ends(c->path, path) ? c : nullptr;
}

void Manager::receive_rej(const wire::CmRej& m, const Path& path, Time now) {
  Connection* c = find_rejected(m, path);
  if (c == nullptr) {
    ++counters_.unknown;
    return;
  }
  const Event event{.rej = &m};
  if (!run(*c, Input::kRej, now, {.message = &event})) ++counters_.unexpected;
}

void Manager::receive_dreq(const wire::CmDreq& m, std::uint64_t transaction_id, const Path& path,
                           Time now) {
  Connection* c = find_match(m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr || c->remote_comm_id == 0) {
    ++counters_.unknown;
    if (!may_reply_stateless(now)) return;
    const wire::CmDrep drep{m.remote_comm_id, m.local_comm_id, {}};
    send(path, wire::encode_cm(drep, transaction_id));
    return;
  }
  if (m.remote_qpn != c->local_qpn) {
    ++counters_.unexpected;
    return;
  }
  const State before = c->state;
  if (find_transition(before, Input::kDreq) == nullptr) {
    ++counters_.unexpected;
    return;
  }
  if (before == State::kTimeWait || before == State::kDreqReceived) ++counters_.duplicates;
  c->transaction_id = transaction_id;  // of the answer
  const Event event{.dreq = &m};
  run(*c, Input::kDreq, now, {.message = &event});
}

// --- service id resolution

void Manager::receive_sidr_req(const wire::CmSidrReq& m, std::uint64_t transaction_id,
                               const Path& path, Time now) {
  if (Connection* c = connections_.find_peer({path.remote, 0, m.request_id, true})) {
    ++counters_.duplicates;
    if (!same_ends(c->path, path) || !run(*c, Input::kSidrReq, now, {})) ++counters_.unexpected;
    return;
  }
  Connection* c = make_half_open(path, State::kSidrReqReceived);
  if (c == nullptr) return;
  c->transaction_id = transaction_id;
  c->remote_comm_id = m.request_id;
  c->service_id = m.service_id;
  c->pkey = m.pkey;
  c->linger = bounded(kSidrReplyKept);
  connections_.list_peer(*c);
  const CommId id = c->id;
  const Answer answer = user_.on_sidr_request({id, path, m});
  c = connections_.find(id);
  if (c == nullptr) return;
  if (answer.kind == Answer::Kind::kTake) {
    c->cookie = answer.cookie;
    return;
  }
  const wire::Mad refusal = compose_sidr_rep(*c, {.status = answer.status});
  connections_.remove(*c);
  if (answer.kind == Answer::Kind::kSilence) return;
  ++counters_.requests_refused;
  if (may_reply_stateless(now)) send(path, refusal);
}

void Manager::receive_sidr_rep(const wire::CmSidrRep& m, const Path& path, Time now) {
  Connection* c = connections_.find(CommId(m.request_id));
  if (c == nullptr || !c->is_question() || !same_ends(c->path, path)) {
    ++counters_.unknown;
    return;
  }
  const Event event{.sidr_rep = &m};
  if (!run(*c, Input::kSidrRep, now, {.message = &event})) ++counters_.unexpected;
}

}  // namespace softhca::management::cm
