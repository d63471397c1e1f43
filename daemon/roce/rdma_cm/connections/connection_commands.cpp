// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"

#include <algorithm>
#include <cerrno>

#include "daemon/base/address_text.hpp"
#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/private_data.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kEventCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST

int refuse_length(const ChannelCommand& command, Body private_data, std::size_t at_most) {
  return command.refuse(EINVAL, "private_data_len %zu, at most %zu", private_data.size(), at_most);
}

}  // namespace

// --- CONNECT

int ConnectionCommands::connect(const ChannelCommand& command) {
  rdma_ucm_connect body;
  // A process built before ECE sends a shorter body.
  if (const int error = command.read(body, offsetof(rdma_ucm_connect, ece))) return error;
  if (body.conn_param.valid == 0) return command.refuse(EINVAL, "conn_param is not set");
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = command.check_state(*id, {IdentifierState::kRouteResolved})) return error;
  if (id->remote.address.is_multicast())
    return command.refuse(EINVAL, "the destination %s is a multicast group",
                          address_text(id->remote.address).c_str());
  if (!addresses_.has(*id->source))
    return command.refuse(EADDRNOTAVAIL, "the identifier's address %s is no longer the tenant's",
                          address_text(*id->source).c_str());
  return id->is_datagram() ? resolve_service_id(command, *id, body.conn_param)
                           : connect_queue_pair(command, *id, body.conn_param);
}

int ConnectionCommands::name_queue_pair(const ChannelCommand& command, Identifier& id,
                                        std::uint32_t number) {
  const Qpn qpn(number & Psn::kMask);
  if (!environment_.may_name_queue_pair(qpn, command.channel.owner.user))
    return command.refuse(EPERM, "qp_num %u is a queue pair of another user or tenant", qpn.value);
  id.connection.qpn = qpn;
  return 0;
}

int ConnectionCommands::connect_queue_pair(const ChannelCommand& command, Identifier& id,
                                           const rdma_ucm_conn_param& parameters) {
  RequestData<92> data;
  const Body program = private_data_of(parameters);
  if (!data.fill(id, program)) return refuse_length(command, program, data.kMostOfProgram);
  if (const int error = name_queue_pair(command, id, parameters.qp_num)) return error;
  if (const int error = admission_.admit(command, id)) return error;
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
  return begin(command, id, manager_.connect(connect, command.now));
}

int ConnectionCommands::resolve_service_id(const ChannelCommand& command, Identifier& id,
                                           const rdma_ucm_conn_param& parameters) {
  RequestData<216> data;
  const Body program = private_data_of(parameters);
  if (!data.fill(id, program)) return refuse_length(command, program, data.kMostOfProgram);
  if (const int error = admission_.check_rate(command)) return error;
  id.connection.qpn = Qpn(parameters.qp_num & Psn::kMask);
  const cm::SidrParameters request{.cookie = id.cookie(),
                                   .path = path_of(id, environment_.adapter(id.source)),
                                   .service_id = id.service_id(id.remote.port),
                                   .private_data = data.bytes()};
  return begin(command, id, manager_.sidr_request(request, command.now));
}

int ConnectionCommands::begin(const ChannelCommand& command, Identifier& id,
                              const cm::Started& started) {
  if (started.result != cm::Result::kOk) {
    admission_.give_back(id);
    environment_.note_refused(Refusal::kConnections);
    return command.refuse(
        ENOMEM, "tenant limit reached: %u connections, including TIME-WAIT (connections.most)",
        manager_.size());
  }
  id.connection.id = started.id;
  id.connection.role = Role::kActive;
  id.connection.began = command.now;
  id.state = IdentifierState::kConnect;
  return 0;
}

// --- ACCEPT

int ConnectionCommands::accept(const ChannelCommand& command) {
  rdma_ucm_accept body;
  if (const int error = command.read(body, offsetof(rdma_ucm_accept, ece))) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = command.check_state(*id, {IdentifierState::kConnect})) return error;
  if (const int error = check_connected(command, *id)) return error;
  const bool given = body.conn_param.valid != 0;
  if (!given && !id->is_datagram()) return confirm_reply(command, *id);
  if (*id->connection.role != Role::kPassive)
    return command.refuse(EINVAL, "the identifier's connection was not requested by its peer");
  const int error = accept_request(command, *id, body.conn_param);
  if (error != 0)
    // The program gives up its queue pair, so the peer must be notified.
    refuse_request(*id, {}, wire::CmRejectReason::kConsumer, command.now);
  else if (given)
    id->uid = body.uid;
  return error;
}

int ConnectionCommands::check_connected(const ChannelCommand& command, const Identifier& id) {
  if (id.connection.id) return 0;
  return command.refuse(EINVAL, "the identifier is in state %s, without a connection",
                        name_of(id.state));
}

int ConnectionCommands::check(const ChannelCommand& command, const Identifier& id,
                              cm::Result result) {
  if (result == cm::Result::kOk) return 0;
  const std::optional<cm::State> state = manager_.state(*id.connection.id);
  return command.refuse(EINVAL, "not possible while the connection is in state %s",
                        state ? cm::name_of(*state) : "ended");
}

int ConnectionCommands::confirm_reply(const ChannelCommand& command, Identifier& id) {
  if (const int error = check(command, id, manager_.confirm(*id.connection.id, command.now)))
    return error;
  established(id, command.now);
  return 0;
}

int ConnectionCommands::accept_request(const ChannelCommand& command, Identifier& id,
                                       const rdma_ucm_conn_param& parameters) {
  const bool given = parameters.valid != 0;
  if (given)
    if (const int error = name_queue_pair(command, id, parameters.qp_num)) return error;
  const Body data = given ? private_data_of(parameters) : Body();
  if (id.is_datagram()) return accept_datagrams(command, id, data);
  if (data.size() > sizeof(wire::CmRep::private_data))
    return refuse_length(command, data, sizeof(wire::CmRep::private_data));
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
  return check(command, id, manager_.accept(*id.connection.id, accept, command.now));
}

int ConnectionCommands::accept_datagrams(const ChannelCommand& command, Identifier& id,
                                         Body private_data) {
  if (private_data.size() > sizeof(wire::CmSidrRep::private_data))
    return refuse_length(command, private_data, sizeof(wire::CmSidrRep::private_data));
  const cm::SidrReplyParameters reply{
      .qpn = id.connection.qpn, .qkey = kDatagramQkey, .private_data = private_data};
  if (const int error =
          check(command, id, manager_.sidr_reply(*id.connection.id, reply, command.now)))
    return error;
  id.connection.id.reset();
  established(id, command.now);
  return 0;
}

/// Counts an established connection.
void ConnectionCommands::established(const Identifier& id, Time now) {
  environment_.note_established(*id.connection.role, now - id.connection.began);
}

// --- REJECT

int ConnectionCommands::reject(const ChannelCommand& command) {
  rdma_ucm_reject body;
  if (const int error = command.read(body)) return error;
  wire::CmRejectReason reason = wire::CmRejectReason::kConsumer;
  if (body.reason == static_cast<std::uint8_t>(wire::CmRejectReason::kVendorOption))
    reason = wire::CmRejectReason::kVendorOption;
  else if (body.reason != 0 && body.reason != static_cast<std::uint8_t>(reason))
    return command.refuse(EINVAL, "reason %u, must be %u or %u", body.reason,
                          static_cast<unsigned>(reason),
                          static_cast<unsigned>(wire::CmRejectReason::kVendorOption));
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = check_connected(command, *id)) return error;
  const Body data = std::as_bytes(std::span(body.private_data)).first(body.private_data_len);
  const std::size_t at_most =
      id->is_datagram() ? sizeof(wire::CmSidrRep::private_data) : sizeof(wire::CmRej::private_data);
  if (data.size() > at_most) return refuse_length(command, data, at_most);
  return check(command, *id, refuse_request(*id, data, reason, command.now));
}

cm::Result ConnectionCommands::refuse_request(Identifier& id, Body private_data,
                                              wire::CmRejectReason reason, Time now) {
  cm::Result result = cm::Result::kWrongState;
  const cm::CommId connection = *id.connection.id;
  if (!id.is_datagram())
    result = manager_.reject(connection, {.reason = reason, .private_data = private_data}, now);
  else if (*id.connection.role == Role::kPassive)
    result = manager_.sidr_reply(
        connection, {.status = wire::CmSidrStatus::kReject, .private_data = private_data}, now);
  if (result != cm::Result::kOk) return result;
  environment_.note_reject_sent(reason);
  admission_.connection_over(id);
  return result;
}

// --- DISCONNECT, NOTIFY

int ConnectionCommands::disconnect(const ChannelCommand& command) {
  rdma_ucm_disconnect body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (!id->connection.role)
    return command.refuse(EINVAL, "the identifier is in state %s, and never had a connection",
                          name_of(id->state));
  // In a state without a connection this is not an error: both ends may disconnect at once.
  if (id->connection.id) manager_.disconnect(*id->connection.id, command.now);
  return 0;
}

int ConnectionCommands::notify(const ChannelCommand& command) {
  rdma_ucm_notify body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = check_connected(command, *id)) return error;
  if (body.event != kEventCommunicationEstablished)
    return command.refuse(EINVAL, "event %u, must be IBV_EVENT_COMM_EST (%u)", body.event,
                          kEventCommunicationEstablished);
  const cm::CommId connection = *id->connection.id;
  if (manager_.state(connection) == cm::State::kEstablished)
    return command.refuse(EISCONN, "the connection is established already");
  return check(command, *id, manager_.notify_established(connection, command.now));
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
