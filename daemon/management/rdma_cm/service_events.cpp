// What the connection manager tells of connections, as events of programs.
#include <cerrno>

#include "daemon/management/rdma_cm/private_data.hpp"
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

rdma_ucm_event_resp make_event(EventType type, std::uint32_t status = 0) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<std::uint32_t>(type);
  response.status = status;
  return response;
}

}  // namespace

void Service::on_event(const cm::Event& event) {
  Identifier* const found = identifiers_.find_cookie(event.cookie);
  if (found == nullptr) return;
  Identifier& id = *found;
  using Kind = cm::Event::Kind;
  switch (event.kind) {
    case Kind::kReplied:
      return replied(id, *event.rep);
    case Kind::kEstablished:
      if (id.state != IdentifierState::kConnect) return;
      close_half(id);
      established(id);
      return queue(id, EventType::kEstablished);
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
      forget_connection(id);
      if (id.state == IdentifierState::kDisconnect) queue(id, EventType::kTimewaitExit);
      return;
    case Kind::kSidrReplied:
      return sidr_replied(id, *event.sidr_rep);
  }
}

void Service::replied(Identifier& id, const wire::CmRep& rep) {
  id.remote_psn = rep.starting_psn;
  rdma_ucm_event_resp response = make_event(EventType::kConnectResponse);
  rdma_ucm_conn_param& parameters = response.param.conn;
  // What one end starts, the other answers.
  parameters.responder_resources = rep.initiator_depth;
  parameters.initiator_depth = rep.responder_resources;
  parameters.flow_control = rep.end_to_end_flow_control;
  parameters.rnr_retry_count = rep.rnr_retry_count;
  parameters.srq = rep.srq;
  parameters.qp_num = rep.local_qpn.value;
  copy_private_data(rep.private_data, parameters);
  queue(id, response);
}

void Service::rejected(Identifier& id, const wire::CmRej& rej) {
  forget_connection(id);
  environment_.note_reject_received(rej.reason);
  rdma_ucm_event_resp response =
      make_event(EventType::kRejected, static_cast<std::uint32_t>(rej.reason));
  copy_private_data(rej.private_data, response.param.conn);
  queue(id, response);
}

void Service::unreachable(Identifier& id, cm::State state) {
  environment_.note_unreachable(*id.role);
  // Time wait begins, and is told of when it is over.
  if (state == cm::State::kDreqSent) return disconnected(id, -ETIMEDOUT);
  forget_connection(id);
  queue(id, EventType::kUnreachable, -ETIMEDOUT);
}

/// Once, however the connection ends.
void Service::disconnected(Identifier& id, int status) {
  if (id.state != IdentifierState::kConnect) return;
  id.state = IdentifierState::kDisconnect;
  give_back_admission(id);
  queue(id, EventType::kDisconnected, status);
}

void Service::sidr_replied(Identifier& id, const wire::CmSidrRep& rep) {
  id.connection.reset();
  if (rep.status != wire::CmSidrStatus::kValid) {
    environment_.note_reject_received(rep.status == wire::CmSidrStatus::kUnsupported
                                          ? wire::CmRejectReason::kInvalidServiceId
                                          : wire::CmRejectReason::kConsumer);
    rdma_ucm_event_resp response =
        make_event(EventType::kUnreachable, static_cast<std::uint32_t>(rep.status));
    copy_private_data(rep.private_data, response.param.ud);
    return queue(id, response);
  }
  established(id);
  rdma_ucm_event_resp response = make_event(EventType::kEstablished);
  rdma_ucm_ud_param& parameters = response.param.ud;
  parameters.ah_attr = address_vector(path_of(id), id.route->sl);
  parameters.qp_num = rep.qpn.value;
  parameters.qkey = rep.qkey;
  copy_private_data(rep.private_data, parameters);
  queue(id, response);
}

}  // namespace softhca::management::rdma_cm
