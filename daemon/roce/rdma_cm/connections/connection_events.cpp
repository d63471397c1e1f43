// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/connection_events.hpp"

#include <cerrno>

#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/private_data.hpp"
#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"

namespace softhca::management::rdma_cm {

namespace {

rdma_ucm_event_resp make_event(EventType type, std::uint32_t status = 0) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<std::uint32_t>(type);
  response.status = status;
  return response;
}

}  // namespace

void ConnectionEvents::on_event(const cm::Event& event) {
  Identifier* const found = identifiers_.find_cookie(event.cookie);
  if (found == nullptr) return;
  Identifier& id = *found;
  using Kind = cm::Event::Kind;
  switch (event.kind) {
    case Kind::kReplied:
      return replied(id, *event.rep);
    case Kind::kEstablished:
      return established(id, event.now);
    case Kind::kRejected:
      return rejected(id, *event.rej);
    case Kind::kDelayed:
      return;
    case Kind::kUnreachable:
      return unreachable(id, event.state);
    case Kind::kDisconnectRequested:
    case Kind::kDisconnected:
      return disconnected(id, 0);
    case Kind::kTimeWaitOver:
      return time_wait_over(id);
    case Kind::kSidrReplied:
      return sidr_replied(id, *event.sidr_rep, event.now);
  }
}

void ConnectionEvents::replied(Identifier& id, const wire::CmRep& rep) {
  id.connection.remote_psn = rep.starting_psn;
  rdma_ucm_event_resp response = make_event(EventType::kConnectResponse);
  rdma_ucm_conn_param& parameters = response.param.conn;
  // The requests that one end initiates, the other end answers.
  parameters.responder_resources = rep.initiator_depth;
  parameters.initiator_depth = rep.responder_resources;
  parameters.flow_control = rep.end_to_end_flow_control;
  parameters.rnr_retry_count = rep.rnr_retry_count;
  parameters.srq = rep.srq;
  parameters.qp_num = rep.local_qpn.value;
  copy_private_data(rep.private_data, parameters);
  events_.queue(id, response);
}

void ConnectionEvents::established(Identifier& id, Time now) {
  if (id.state != IdentifierState::kConnect) return;
  admission_.close_half(id);
  environment_.note_established(*id.connection.role, now - id.connection.began);
  events_.queue(id, EventType::kEstablished);
}

void ConnectionEvents::rejected(Identifier& id, const wire::CmRej& rej) {
  admission_.connection_over(id);
  environment_.note_reject_received(rej.reason);
  rdma_ucm_event_resp response =
      make_event(EventType::kRejected, static_cast<std::uint32_t>(rej.reason));
  copy_private_data(rej.private_data, response.param.conn);
  events_.queue(id, response);
}

void ConnectionEvents::unreachable(Identifier& id, cm::State state) {
  environment_.note_unreachable(*id.connection.role);
  // Time wait begins; the program is notified when it ends.
  if (state == cm::State::kDreqSent) return disconnected(id, -ETIMEDOUT);
  admission_.connection_over(id);
  events_.queue(id, EventType::kUnreachable, -ETIMEDOUT);
}

/// Notifies the program once, however the connection ends.
void ConnectionEvents::disconnected(Identifier& id, int status) {
  if (id.state != IdentifierState::kConnect) return;
  id.state = IdentifierState::kDisconnect;
  admission_.give_back(id);
  events_.queue(id, EventType::kDisconnected, status);
}

void ConnectionEvents::time_wait_over(Identifier& id) {
  admission_.connection_over(id);
  if (id.state == IdentifierState::kDisconnect) events_.queue(id, EventType::kTimewaitExit);
}

void ConnectionEvents::sidr_replied(Identifier& id, const wire::CmSidrRep& rep, Time now) {
  id.connection.id.reset();
  if (rep.status != wire::CmSidrStatus::kValid) {
    environment_.note_reject_received(rep.status == wire::CmSidrStatus::kUnsupported
                                          ? wire::CmRejectReason::kInvalidServiceId
                                          : wire::CmRejectReason::kConsumer);
    rdma_ucm_event_resp response =
        make_event(EventType::kUnreachable, static_cast<std::uint32_t>(rep.status));
    copy_private_data(rep.private_data, response.param.ud);
    return events_.queue(id, response);
  }
  environment_.note_established(*id.connection.role, now - id.connection.began);
  rdma_ucm_event_resp response = make_event(EventType::kEstablished);
  rdma_ucm_ud_param& parameters = response.param.ud;
  parameters.ah_attr =
      address_vector(addresses_, path_of(id, environment_.adapter(id.source)), id.route->sl);
  parameters.qp_num = rep.qpn.value;
  parameters.qkey = rep.qkey;
  copy_private_data(rep.private_data, parameters);
  events_.queue(id, response);
}

}  // namespace softhca::management::rdma_cm
