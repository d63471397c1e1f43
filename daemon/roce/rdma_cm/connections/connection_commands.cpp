// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"

#include <algorithm>
#include <cerrno>

#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/private_data.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kEventCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST

int to_errno(cm::Result result) { return result == cm::Result::kOk ? 0 : EINVAL; }

}  // namespace

// --- CONNECT

int ConnectionCommands::connect(const ChannelCommand& command) {
  rdma_ucm_connect body;
  // A process built before ECE sends a shorter body.
  if (!read_body(command.body, body, offsetof(rdma_ucm_connect, ece))) return EINVAL;
  if (body.conn_param.valid == 0) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (id->state != IdentifierState::kRouteResolved) return EINVAL;
  if (id->remote.address.is_multicast()) return EINVAL;
  if (!id->source || !addresses_.has(*id->source)) return EADDRNOTAVAIL;
  return id->is_datagram()
             ? resolve_service_id(*id, body.conn_param, command.now)
             : connect_queue_pair(*id, command.channel.owner, body.conn_param, command.now);
}

int ConnectionCommands::name_queue_pair(Identifier& id, const ChannelOwner& owner,
                                        std::uint32_t number) {
  const Qpn qpn(number & Psn::kMask);
  if (!environment_.may_name_queue_pair(qpn, owner.user)) return EPERM;
  id.connection.qpn = qpn;
  return 0;
}

int ConnectionCommands::connect_queue_pair(Identifier& id, const ChannelOwner& owner,
                                           const rdma_ucm_conn_param& parameters, Time now) {
  RequestData<92> data;
  if (!data.fill(id, private_data_of(parameters))) return EINVAL;
  if (const int error = name_queue_pair(id, owner, parameters.qp_num)) return error;
  if (const int error = admission_.admit(id, owner.level, now)) return error;
  Identifier::Connection& connection = id.connection;
  connection.srq = parameters.srq != 0;
  connection.local_psn = Psn(environment_.random());
  const cm::ConnectParameters connect{
      .cookie = id.cookie(),
      .path = path_of(id, environment_.adapter(id.source)),
      .service_id = id.service_id(id.remote.port),
      .local_qpn = connection.qpn,
      .starting_psn = connection.local_psn,
      .path_mtu = id.route->mtu,
      .packet_life_time = id.route->packet_life_time,
      .packet_rate = id.route->rate,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .retry_count = std::min(parameters.retry_count, kMostRetries),
      .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
      .flow_control = parameters.flow_control != 0,
      .srq = connection.srq,
      .private_data = data.bytes(),
  };
  return begin(id, manager_.connect(connect, now), now);
}

int ConnectionCommands::resolve_service_id(Identifier& id, const rdma_ucm_conn_param& parameters,
                                           Time now) {
  RequestData<216> data;
  if (!data.fill(id, private_data_of(parameters))) return EINVAL;
  if (!admission_.rate_allows(now)) return EAGAIN;
  id.connection.qpn = Qpn(parameters.qp_num & Psn::kMask);
  const cm::SidrParameters request{.cookie = id.cookie(),
                                   .path = path_of(id, environment_.adapter(id.source)),
                                   .service_id = id.service_id(id.remote.port),
                                   .private_data = data.bytes()};
  return begin(id, manager_.sidr_request(request, now), now);
}

int ConnectionCommands::begin(Identifier& id, const cm::Started& started, Time now) {
  if (started.result != cm::Result::kOk) {
    admission_.give_back(id);
    environment_.note_refused(Refusal::kConnections);
    return ENOMEM;
  }
  id.connection.id = started.id;
  id.connection.role = Role::kActive;
  id.connection.began = now;
  id.state = IdentifierState::kConnect;
  return 0;
}

// --- ACCEPT

int ConnectionCommands::accept(const ChannelCommand& command) {
  rdma_ucm_accept body;
  if (!read_body(command.body, body, offsetof(rdma_ucm_accept, ece))) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (id->state != IdentifierState::kConnect || !id->connection.id) return EINVAL;
  const bool given = body.conn_param.valid != 0;
  if (!given && !id->is_datagram()) return confirm_reply(*id, command.now);
  if (*id->connection.role != Role::kPassive) return EINVAL;
  const int error = accept_request(*id, command.channel.owner, body.conn_param, command.now);
  if (error != 0)
    // The program gives up its queue pair, so the peer must be notified.
    refuse_request(*id, {}, wire::CmRejectReason::kConsumer, command.now);
  else if (given)
    id->uid = body.uid;
  return error;
}

int ConnectionCommands::confirm_reply(Identifier& id, Time now) {
  if (const int error = to_errno(manager_.confirm(*id.connection.id, now))) return error;
  established(id, now);
  return 0;
}

int ConnectionCommands::accept_request(Identifier& id, const ChannelOwner& owner,
                                       const rdma_ucm_conn_param& parameters, Time now) {
  const bool given = parameters.valid != 0;
  if (given)
    if (const int error = name_queue_pair(id, owner, parameters.qp_num)) return error;
  const Body data = given ? private_data_of(parameters) : Body();
  if (id.is_datagram()) return accept_datagrams(id, data, now);
  id.connection.srq = parameters.srq != 0;
  const cm::AcceptParameters accept{
      .local_qpn = id.connection.qpn,
      .starting_psn = id.connection.local_psn,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
      .flow_control = parameters.flow_control != 0,
      .srq = id.connection.srq,
      .private_data = data,
  };
  return to_errno(manager_.accept(*id.connection.id, accept, now));
}

int ConnectionCommands::accept_datagrams(Identifier& id, Body private_data, Time now) {
  const cm::SidrReplyParameters reply{
      .qpn = id.connection.qpn, .qkey = kDatagramQkey, .private_data = private_data};
  const int error = to_errno(manager_.sidr_reply(*id.connection.id, reply, now));
  if (error != 0) return error;
  id.connection.id.reset();
  established(id, now);
  return 0;
}

/// Counts an established connection.
void ConnectionCommands::established(const Identifier& id, Time now) {
  environment_.note_established(*id.connection.role, now - id.connection.began);
}

// --- REJECT

int ConnectionCommands::reject(const ChannelCommand& command) {
  rdma_ucm_reject body;
  if (!read_body(command.body, body)) return EINVAL;
  wire::CmRejectReason reason = wire::CmRejectReason::kConsumer;
  if (body.reason == static_cast<std::uint8_t>(wire::CmRejectReason::kVendorOption))
    reason = wire::CmRejectReason::kVendorOption;
  else if (body.reason != 0 && body.reason != static_cast<std::uint8_t>(reason))
    return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (!id->connection.id) return EINVAL;
  const Body data = std::as_bytes(std::span(body.private_data)).first(body.private_data_len);
  return refuse_request(*id, data, reason, command.now);
}

int ConnectionCommands::refuse_request(Identifier& id, Body private_data,
                                       wire::CmRejectReason reason, Time now) {
  cm::Result result = cm::Result::kWrongState;
  const cm::CommId connection = *id.connection.id;
  if (!id.is_datagram())
    result = manager_.reject(connection, {.reason = reason, .private_data = private_data}, now);
  else if (*id.connection.role == Role::kPassive)
    result = manager_.sidr_reply(
        connection, {.status = wire::CmSidrStatus::kReject, .private_data = private_data}, now);
  if (result != cm::Result::kOk) return EINVAL;
  environment_.note_reject_sent(reason);
  admission_.connection_over(id);
  return 0;
}

// --- DISCONNECT, NOTIFY

int ConnectionCommands::disconnect(const ChannelCommand& command) {
  rdma_ucm_disconnect body;
  if (!read_body(command.body, body)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (!id->connection.role) return EINVAL;
  // In a state without a connection this is not an error: both ends may disconnect at once.
  if (id->connection.id) manager_.disconnect(*id->connection.id, command.now);
  return 0;
}

int ConnectionCommands::notify(const ChannelCommand& command) {
  rdma_ucm_notify body;
  if (!read_body(command.body, body)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (!id->connection.id || body.event != kEventCommunicationEstablished) return EINVAL;
  const cm::CommId connection = *id->connection.id;
  if (manager_.state(connection) == cm::State::kEstablished) return EISCONN;
  return to_errno(manager_.notify_established(connection, command.now));
}

// --- the end

void ConnectionCommands::end(Identifier& id, Time now) {
  if (!id.connection.id) return;
  const std::optional<cm::State> state = manager_.state(*id.connection.id);
  manager_.destroy(*id.connection.id, now);
  admission_.connection_over(id);
  if (!state) return;
  switch (*state) {
    case cm::State::kReqSent:
    case cm::State::kMraReqReceived:
      return environment_.note_reject_sent(wire::CmRejectReason::kTimeout);
    case cm::State::kRepReceived:
    case cm::State::kReqReceived:
    case cm::State::kMraReqSent:
    case cm::State::kRepSent:
    case cm::State::kMraRepReceived:
      return environment_.note_reject_sent(wire::CmRejectReason::kConsumer);
    default:
      return;
  }
}

}  // namespace softhca::management::rdma_cm
