// What the user and operators ask about connections.
#include "daemon/management/cm/manager.hpp"

namespace softhca::management::cm {
namespace {

ConnectionView view_of(const Connection& c) {
  return {.id = c.id,
          .cookie = c.cookie,
          .has_user = c.has_user,
          .active = c.active,
          .state = c.state,
          .path = c.path,
          .service_id = c.service_id,
          .remote_comm_id = c.remote_comm_id,
          .local_qpn = c.local_qpn,
          .remote_qpn = c.remote_qpn};
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

std::optional<State> Manager::state(CommId id) const {
  const Connection* c = connections_.find(id);
  return c == nullptr ? std::nullopt : std::optional(c->state);
}

std::optional<QueuePairAttributes> Manager::queue_pair_attributes(CommId id) const {
  const Connection* c = connections_.find(id);
  if (c == nullptr || c->is_question()) return std::nullopt;
  return QueuePairAttributes{.may_init = may_init(c->state),
                             .may_connect = may_connect(c->state),
                             .transport = c->transport,
                             .path = c->path,
                             .sl = c->sl,
                             .pkey = c->pkey,
                             .responder_resources = c->responder_resources,
                             .initiator_depth = c->initiator_depth,
                             .path_mtu = c->path_mtu,
                             .remote_qpn = c->remote_qpn,
                             .rq_psn = c->rq_psn,
                             .sq_psn = c->sq_psn,
                             .retry_count = c->retry_count,
                             .rnr_retry_count = c->rnr_retry_count,
                             .ack_timeout = c->ack_timeout,
                             .peer_has_srq = c->peer_has_srq};
}

std::optional<ConnectionView> Manager::view(CommId id) const {
  const Connection* c = connections_.find(id);
  return c == nullptr ? std::nullopt : std::optional(view_of(*c));
}

void Manager::for_each(const std::function<void(const ConnectionView&)>& visit) const {
  connections_.for_each([&](const Connection& c) { visit(view_of(c)); });
}

}  // namespace softhca::management::cm
