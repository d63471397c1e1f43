// What the user of the manager does.
#include "daemon/management/cm/compose.hpp"
#include "daemon/management/cm/manager.hpp"

namespace softhca::management::cm {

Manager::Started Manager::connect(const ConnectParameters& p, Time now) {
  if (!fits<92>(p.private_data)) return {Result::kTooLong, {}};
  Connection* c = make_connection(p.path, State::kReqSent);
  if (c == nullptr) return {Result::kNoPlace, {}};
  c->active = true;
  c->cookie = p.cookie;
  c->service_id = p.service_id;
  c->transport = p.transport;
  c->local_qpn = p.local_qpn;
  c->sq_psn = p.starting_psn;
  c->pkey = p.pkey;
  c->path_mtu = p.path_mtu;
  c->responder_resources = p.responder_resources;
  c->initiator_depth = p.initiator_depth;
  c->retry_count = p.retry_count;
  c->rnr_retry_count = p.rnr_retry_count;
  c->packet_life_time = p.packet_life_time;
  c->ack_timeout = ack_timeout_of(p.packet_life_time, 0);
  c->max_retries = p.max_cm_retries;
  c->response_timeout =
      bounded(2 * duration_of(p.packet_life_time) + duration_of(p.remote_response_timeout));
  c->linger = bounded(2 * duration_of(p.local_response_timeout));
  keep_and_send(*c, compose_req(*c, p, ca_guid_));
  connections_.arm(*c, now + c->response_timeout);
  return {Result::kOk, c->id};
}

Result Manager::confirm(CommId id, Time now, PrivateData private_data) {
  if (!fits<224>(private_data)) return Result::kTooLong;
  const Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rtu = compose_rtu(*c, private_data);
  return call(id, Input::kConfirm, now, {.given = &rtu});
}

Manager::Started Manager::sidr_request(const SidrParameters& p, Time now) {
  if (!fits<216>(p.private_data)) return {Result::kTooLong, {}};
  Connection* c = make_connection(p.path, State::kSidrReqSent);
  if (c == nullptr) return {Result::kNoPlace, {}};
  c->active = true;
  c->cookie = p.cookie;
  c->service_id = p.service_id;
  c->max_retries = p.max_cm_retries;
  c->response_timeout = bounded(duration_of(p.response_timeout));
  keep_and_send(*c, compose_sidr_req(*c, p));
  connections_.arm(*c, now + c->response_timeout);
  return {Result::kOk, c->id};
}

Result Manager::accept(CommId id, const AcceptParameters& p, Time now) {
  if (!fits<196>(p.private_data)) return Result::kTooLong;
  Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  if (find_transition(c->state, Input::kAccept) == nullptr) return Result::kWrongState;
  c->local_qpn = p.local_qpn;
  c->sq_psn = p.starting_psn;
  c->responder_resources = p.responder_resources;
  c->initiator_depth = p.initiator_depth;
  const wire::Mad rep = compose_rep(*c, p, ca_guid_);
  return call(id, Input::kAccept, now, {.given = &rep});
}

Result Manager::notify_established(CommId id, Time now) {
  return call(id, Input::kNotifyEstablished, now);
}

Result Manager::send_mra(CommId id, std::uint8_t service_timeout, Time now) {
  return call(id, Input::kSendMra, now, {.service_timeout = service_timeout});
}

Result Manager::sidr_reply(CommId id, const SidrReplyParameters& p, Time now) {
  if (!fits<72>(p.info) || !fits<136>(p.private_data)) return Result::kTooLong;
  const Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rep = compose_sidr_rep(*c, p);
  return call(id, Input::kSidrReply, now, {.given = &rep});
}

Result Manager::reject(CommId id, const RejectParameters& p, Time now) {
  if (!fits<72>(p.info) || !fits<148>(p.private_data)) return Result::kTooLong;
  const Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rej = compose_rej(*c, p);
  return call(id, Input::kReject, now, {.given = &rej});
}

Result Manager::disconnect(CommId id, Time now, PrivateData private_data) {
  if (!fits<220>(private_data)) return Result::kTooLong;
  Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  if (find_transition(c->state, Input::kDisconnect) == nullptr) return Result::kWrongState;
  const bool asked = c->state == State::kDreqReceived;
  if (!asked) c->transaction_id = draw_transaction_id(c->id);
  const wire::Mad mad = asked ? compose_drep(*c, private_data) : compose_dreq(*c, private_data);
  return call(id, Input::kDisconnect, now, {.given = &mad});
}

Result Manager::destroy(CommId id, Time now) { return call(id, Input::kDestroy, now); }

Result Manager::set_cookie(CommId id, Cookie cookie) {
  Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  c->cookie = cookie;
  return Result::kOk;
}

}  // namespace softhca::management::cm
