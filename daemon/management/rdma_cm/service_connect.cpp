// LISTEN, CONNECT, DISCONNECT, NOTIFY.
#include <algorithm>
#include <cerrno>

#include "daemon/management/rdma_cm/private_data.hpp"
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kEventCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST

}  // namespace

// --- LISTEN

int Service::listen(Channel& channel, Body body) {
  rdma_ucm_listen command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id)) return error;
  if (id->state != IdentifierState::kIdle && id->state != IdentifierState::kBound) return EINVAL;
  if (listener_count_ >= limits_.listeners) {
    environment_.note_refused(Refusal::kListeners);
    return ENOSPC;
  }
  if (id->state == IdentifierState::kIdle)
    if (const int error = bind(*id, channel.owner, any_address(AF_INET))) return error;
  if (const int error = ports_of(id->space).listen(id->number.value, id->local.port)) return error;
  id->reuse_address = false;
  id->backlog =
      command.backlog == 0 || command.backlog > limits_.backlog ? limits_.backlog : command.backlog;
  id->state = IdentifierState::kListen;
  listeners_[{id->space, id->local.port}].push_back(id->number);
  ++listener_count_;
  return 0;
}

// --- CONNECT

/// As many connects as a second allows may come at once.
bool Service::rate_allows() {
  const std::uint32_t rate = limits_.connects_per_second;
  if (rate == 0) return true;
  constexpr Duration kSecond = std::chrono::seconds(1);
  const Time full_at = std::max(rate_full_at_, now_) + kSecond / rate;
  if (full_at > now_ + kSecond) {
    environment_.note_refused(Refusal::kConnectRate);
    return false;
  }
  rate_full_at_ = full_at;
  return true;
}

int Service::connect(Channel& channel, Body body) {
  rdma_ucm_connect command;
  // A process of before ECE has a shorter one.
  if (!read_body(body, command, offsetof(rdma_ucm_connect, ece))) return EINVAL;
  if (command.conn_param.valid == 0) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (id->state != IdentifierState::kRouteResolved) return EINVAL;
  if (id->remote.address.is_multicast()) return EINVAL;
  if (!id->source || own_address(*id->source) == nullptr) return EADDRNOTAVAIL;
  return id->is_datagram() ? ask_service(*id, command.conn_param)
                           : connect_queue_pair(*id, command.conn_param);
}

/// Admission first, as for requests of peers. 0, or an errno value.
int Service::carry(Identifier& id) {
  const std::string& level = channel_of(id)->owner.level;
  if (!admission_.take(level)) {
    environment_.note_refused(Refusal::kAdmission);
    return ENOBUFS;
  }
  id.admitted = level;
  if (rate_allows()) return 0;
  give_back_admission(id);
  return EAGAIN;
}

int Service::connect_queue_pair(Identifier& id, const rdma_ucm_conn_param& parameters) {
  RequestData<92> data;
  if (!data.fill(id, private_data_of(parameters))) return EINVAL;
  if (const int error = carry(id)) return error;
  id.qpn = Qpn(parameters.qp_num & Psn::kMask);
  id.srq = parameters.srq != 0;
  id.local_psn = Psn(environment_.random());
  const cm::ConnectParameters connect{
      .cookie = id.cookie(),
      .path = path_of(id),
      .service_id = id.service_id(id.remote.port),
      .local_qpn = id.qpn,
      .starting_psn = id.local_psn,
      .path_mtu = id.route->mtu,
      .packet_life_time = id.route->packet_life_time,
      .packet_rate = id.route->rate,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .retry_count = std::min(parameters.retry_count, kMostRetries),
      .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
      .flow_control = parameters.flow_control != 0,
      .srq = id.srq,
      .private_data = data.bytes(),
  };
  return begin_connection(id, manager_.connect(connect, now_));
}

int Service::ask_service(Identifier& id, const rdma_ucm_conn_param& parameters) {
  RequestData<216> data;
  if (!data.fill(id, private_data_of(parameters))) return EINVAL;
  if (!rate_allows()) return EAGAIN;
  id.qpn = Qpn(parameters.qp_num & Psn::kMask);
  const cm::SidrParameters ask{.cookie = id.cookie(),
                               .path = path_of(id),
                               .service_id = id.service_id(id.remote.port),
                               .private_data = data.bytes()};
  return begin_connection(id, manager_.sidr_request(ask, now_));
}

int Service::begin_connection(Identifier& id, const cm::Started& started) {
  if (started.result != cm::Result::kOk) {
    give_back_admission(id);
    environment_.note_refused(Refusal::kConnections);
    return ENOMEM;
  }
  id.connection = started.id;
  id.role = Role::kActive;
  id.began = now_;
  id.state = IdentifierState::kConnect;
  return 0;
}

// --- DISCONNECT

int Service::disconnect(Channel& channel, Body body) {
  rdma_ucm_disconnect command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (!id->role) return EINVAL;
  // In a state that has nothing to disconnect this is no error: both ends may do it at once.
  if (id->connection) manager_.disconnect(*id->connection, now_);
  return 0;
}

// --- NOTIFY

int Service::notify(Channel& channel, Body body) {
  rdma_ucm_notify command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (!id->connection || command.event != kEventCommunicationEstablished) return EINVAL;
  if (manager_.state(*id->connection) == cm::State::kEstablished) return EISCONN;
  return manager_.notify_established(*id->connection, now_) == cm::Result::kOk ? 0 : EINVAL;
}

}  // namespace softhca::management::rdma_cm
