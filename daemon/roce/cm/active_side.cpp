// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/active_side.hpp"

#include "daemon/roce/cm/compose.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {

Started ActiveSide::connect(const ConnectParameters& p, Time now) {
  if (!fits<92>(p.private_data)) return {Result::kTooLong, {}};
  Connection* c = factory_.make(p.path, State::kReqSent);
  if (c == nullptr) return {Result::kNoPlace, {}};
  c->active = true;
  c->cookie = p.cookie;
  c->service_id = p.service_id;
  c->queue_pair.request(p);
  const CmLimits& limits = local_.limits;
  c->retransmission.set_retries(p.max_cm_retries);
  c->retransmission.set_timeout(
      limits.bounded(2 * duration_of(p.packet_life_time) + duration_of(p.remote_response_timeout)));
  c->linger = limits.bounded(2 * duration_of(p.local_response_timeout));
  machine_.begin(*c, compose_req(*c, p, local_.ca_guid), now);
  return {Result::kOk, c->id};
}

Result ActiveSide::confirm(CommId id, PrivateData private_data, Time now) {
  if (!fits<224>(private_data)) return Result::kTooLong;
  const Connection* c = machine_.owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rtu = compose_rtu(*c, private_data);
  return machine_.call(id, Input::kConfirm, now, {.given = &rtu});
}

void ActiveSide::receive_rep(const wire::CmRep& m, std::uint64_t transaction_id, const Path& path,
                             Time now) {
  Connection* c = match_answer(connections_, m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr) {
    ++counters_.unknown;
    const wire::CmRej rej{.local_comm_id = m.remote_comm_id,
                          .remote_comm_id = m.local_comm_id,
                          .message = wire::CmMessage::kRep,
                          .reason = wire::CmRejectReason::kInvalidCommId};
    sender_.reply_stateless(path, wire::encode_cm(rej, transaction_id), now);
    return;
  }
  if (c->remote_comm_id == 0) {
    if (m.local_comm_id == 0 || !take_rep(*c, m, path, now)) ++counters_.unexpected;
    return;
  }
  ++counters_.duplicates;
  if (!c->active || !machine_.run(*c, Input::kRep, now)) ++counters_.unexpected;
}

/// Handles the first REP. Returns false if the peer uses the same communication id for another
/// connection.
bool ActiveSide::take_rep(Connection& c, const wire::CmRep& m, const Path& path, Time now) {
  if (connections_.find_peer({path.remote, m.local_ca_guid, m.local_comm_id}) != nullptr)
    return false;
  const Qpn qpn = queue_pair_of(m, c.queue_pair.transport);
  c.remote_comm_id = m.local_comm_id;
  c.remote_ca_guid = m.local_ca_guid;
  c.queue_pair.remote_qpn = qpn;
  if (Connection* old = connections_.find_queue_pair({path.remote, m.local_ca_guid, qpn})) {
    refuse_stale(c, m, *old, path, now);
    return true;
  }
  connections_.list_peer(c);
  connections_.list_queue_pair(c);
  c.queue_pair.take_reply(m);
  const Event event{.rep = &m};
  return machine_.run(c, Input::kRep, now, {.message = &event});
}

/// Handles a REP from a queue pair that is already connected: reports a REJ to the user, and ends
/// the old connection as well.
void ActiveSide::refuse_stale(Connection& c, const wire::CmRep& m, const Connection& old,
                              const Path& path, Time now) {
  ++counters_.stale;
  const CommId old_id = old.id;
  const wire::CmRej rej{.local_comm_id = c.id.value,
                        .remote_comm_id = m.local_comm_id,
                        .message = wire::CmMessage::kRep,
                        .reason = wire::CmRejectReason::kStaleConnection};
  sender_.send(path, wire::encode_cm(rej, c.transaction_id));
  const Event event{.rej = &rej};
  machine_.run(c, Input::kRej, now, {.message = &event});
  if (Connection* still = connections_.find(old_id)) machine_.run(*still, Input::kStale, now);
}

}  // namespace softhca::management::cm
