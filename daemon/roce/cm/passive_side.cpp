// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/passive_side.hpp"

#include <optional>

#include "daemon/roce/cm/compose.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {
namespace {

using wire::CmRejectReason;

/// Returns why a REQ cannot be served, regardless of the listening program.
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

void take_over(Connection& c, const wire::CmReq& m, std::uint64_t transaction_id) {
  c.transaction_id = transaction_id;
  c.remote_comm_id = m.local_comm_id;
  c.remote_ca_guid = m.local_ca_guid;
  c.service_id = m.service_id;
  c.path.flow_label = m.primary.flow_label;
  c.path.traffic_class = m.primary.traffic_class;
  if (m.primary.hop_limit != 0) c.path.hop_limit = m.primary.hop_limit;
  c.queue_pair.take_request(m);
  c.retransmission.set_retries(m.max_cm_retries);
}

}  // namespace

void PassiveSide::receive_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                              Time now) {
  if (m.local_comm_id == 0) {
    ++counters_.malformed;
    return;
  }
  if (Connection* c = connections_.find_peer({path.remote, m.local_ca_guid, m.local_comm_id})) {
    ++counters_.duplicates;
    if (c->active || !same_ends(c->path, path) || !machine_.run(*c, Input::kReq, now))
      ++counters_.unexpected;
    return;
  }
  if (const auto reason = defect_of(m, path)) return refuse(m, transaction_id, path, *reason, now);
  if (Connection* old = connections_.find_queue_pair({path.remote, m.local_ca_guid, m.local_qpn})) {
    ++counters_.stale;
    refuse(m, transaction_id, path, CmRejectReason::kStaleConnection, now);
    machine_.run(*old, Input::kStale, now);
    return;
  }
  offer(m, transaction_id, path, now);
}

/// Offers the request to the user, which takes it, refuses it, or leaves it unanswered.
void PassiveSide::offer(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                        Time now) {
  Connection* c =
      factory_.make_half_open(path, State::kReqReceived, wire::encode_cm(m, transaction_id), now);
  if (c == nullptr) return;
  take_over(*c, m, transaction_id);
  const CmLimits& limits = local_.limits;
  c->retransmission.set_timeout(limits.bounded(duration_of(m.local_response_timeout)));
  c->linger = limits.bounded(2 * (duration_of(m.remote_response_timeout) +
                                  2 * duration_of(c->queue_pair.packet_life_time)));
  connections_.list_peer(*c);
  connections_.list_queue_pair(*c);
  const CommId id = c->id;
  const Answer answer = user_.on_request({id, c->path, m, now});
  c = connections_.find(id);
  if (c == nullptr) return;
  if (answer.kind == Answer::Kind::kTake) {
    c->cookie = answer.cookie;
    return;
  }
  connections_.remove(*c);
  if (answer.kind == Answer::Kind::kRefuse) {
    ++counters_.requests_refused;
    refuse(m, transaction_id, path, answer.reason, now);
  }
}

void PassiveSide::refuse(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                         CmRejectReason reason, Time now) {
  const wire::CmRej rej{
      .remote_comm_id = m.local_comm_id, .message = wire::CmMessage::kReq, .reason = reason};
  sender_.reply_stateless(path, wire::encode_cm(rej, transaction_id), now);
}

Result PassiveSide::accept(CommId id, const AcceptParameters& p, Time now) {
  if (!fits<196>(p.private_data)) return Result::kTooLong;
  Connection* c = machine_.owned(id);
  if (c == nullptr) return Result::kUnknown;
  if (find_transition(c->state, Input::kAccept) == nullptr) return Result::kWrongState;
  c->queue_pair.accept(p);
  const wire::Mad rep = compose_rep(*c, p, local_.ca_guid);
  return machine_.call(id, Input::kAccept, now, {.given = &rep});
}

}  // namespace softhca::management::cm
