// ACCEPT and REJECT.
#include <algorithm>
#include <cerrno>

#include "daemon/management/rdma_cm/private_data.hpp"
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

int to_errno(cm::Result result) { return result == cm::Result::kOk ? 0 : EINVAL; }

}  // namespace

// --- ACCEPT

int Service::accept(Channel& channel, Body body) {
  rdma_ucm_accept command;
  if (!read_body(body, command, offsetof(rdma_ucm_accept, ece))) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (id->state != IdentifierState::kConnect || !id->connection) return EINVAL;
  if (command.conn_param.valid == 0 && !id->is_datagram()) return confirm_reply(*id);
  if (*id->role != Role::kPassive) return EINVAL;
  const int error = accept_request(*id, command.conn_param);
  if (error != 0)
    // The program gives its queue pair up: the peer is to know.
    refuse_request(*id, {}, wire::CmRejectReason::kConsumer);
  else if (command.conn_param.valid != 0)
    id->uid = command.uid;
  return error;
}

int Service::confirm_reply(Identifier& id) {
  if (const int error = to_errno(manager_.confirm(*id.connection, now_))) return error;
  established(id);
  return 0;
}

int Service::accept_request(Identifier& id, const rdma_ucm_conn_param& parameters) {
  const bool given = parameters.valid != 0;
  if (given) id.qpn = Qpn(parameters.qp_num & Psn::kMask);
  const Body data = given ? private_data_of(parameters) : Body();
  if (id.is_datagram()) {
    const cm::SidrReplyParameters reply{.qpn = id.qpn, .qkey = kDatagramQkey, .private_data = data};
    const int error = to_errno(manager_.sidr_reply(*id.connection, reply, now_));
    if (error == 0) {
      id.connection.reset();
      established(id);
    }
    return error;
  }
  id.srq = parameters.srq != 0;
  const cm::AcceptParameters accept{
      .local_qpn = id.qpn,
      .starting_psn = id.local_psn,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
      .flow_control = parameters.flow_control != 0,
      .srq = id.srq,
      .private_data = data,
  };
  return to_errno(manager_.accept(*id.connection, accept, now_));
}

/// The connection is one at last.
void Service::established(Identifier& id) {
  environment_.note_established(*id.role, now_ - id.began);
}

// --- REJECT

int Service::reject(Channel& channel, Body body) {
  rdma_ucm_reject command;
  if (!read_body(body, command)) return EINVAL;
  wire::CmRejectReason reason = wire::CmRejectReason::kConsumer;
  if (command.reason == static_cast<std::uint8_t>(wire::CmRejectReason::kVendorOption))
    reason = wire::CmRejectReason::kVendorOption;
  else if (command.reason != 0 && command.reason != static_cast<std::uint8_t>(reason))
    return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (!id->connection) return EINVAL;
  return refuse_request(
      *id, std::as_bytes(std::span(command.private_data)).first(command.private_data_len), reason);
}

int Service::refuse_request(Identifier& id, Body private_data, wire::CmRejectReason reason) {
  cm::Result result = cm::Result::kWrongState;
  if (!id.is_datagram())
    result =
        manager_.reject(*id.connection, {.reason = reason, .private_data = private_data}, now_);
  else if (*id.role == Role::kPassive)
    result = manager_.sidr_reply(
        *id.connection, {.status = wire::CmSidrStatus::kReject, .private_data = private_data},
        now_);
  if (result != cm::Result::kOk) return EINVAL;
  environment_.note_reject_sent(reason);
  forget_connection(id);
  return 0;
}

}  // namespace softhca::management::rdma_cm
