// What operators see and do.
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

const char* name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kIdentifiers:
      return "identifiers";
    case Refusal::kListeners:
      return "listeners";
    case Refusal::kBacklog:
      return "backlog";
    case Refusal::kConnectRate:
      return "connects_per_second";
    case Refusal::kAdmission:
      return "admission";
    case Refusal::kConnections:
      return "most";
    case Refusal::kHalfOpen:
      return "half_open";
    case Refusal::kPeers:
      return "peers";
    case Refusal::kEvents:
      return "events";
    case Refusal::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(IdentifierState state) {
  switch (state) {
    case IdentifierState::kIdle:
      return "idle";
    case IdentifierState::kBound:
      return "bound";
    case IdentifierState::kResolvingAddress:
      return "resolving_address";
    case IdentifierState::kAddressResolved:
      return "address_resolved";
    case IdentifierState::kRouteResolved:
      return "route_resolved";
    case IdentifierState::kConnect:
      return "connect";
    case IdentifierState::kDisconnect:
      return "disconnect";
    case IdentifierState::kListen:
      return "listen";
    case IdentifierState::kRemoved:
      return "removed";
  }
  return "unknown";
}

void Service::for_each_connection(const std::function<void(const ConnectionInfo&)>& visit) const {
  identifiers_.for_each([&](const Identifier& id) {
    if (!id.role) return;
    ConnectionInfo info{.state = id.state,
                        .role = *id.role,
                        .local = id.local,
                        .remote = id.remote,
                        .space = id.space,
                        .qpn = id.qpn,
                        .process = process_of(id)};
    info.service_id = id.service_id(*id.role == Role::kActive ? id.remote.port : id.local.port);
    if (id.connection) info.manager_state = manager_.state(*id.connection);
    visit(info);
  });
}

void Service::for_each_listener(const std::function<void(const ListenerInfo&)>& visit) const {
  identifiers_.for_each([&](const Identifier& id) {
    if (id.state != IdentifierState::kListen) return;
    visit({.local = id.local,
           .space = id.space,
           .backlog = id.backlog,
           .waiting = id.waiting,
           .process = process_of(id)});
  });
}

pid_t Service::process_of(const Identifier& id) const {
  const auto found = channels_.find(id.channel);
  return found == channels_.end() ? 0 : found->second.owner.process;
}

void Service::addresses_changed() {
  identifiers_.for_each([&](Identifier& id) {
    const bool gone = id.source && own_address(*id.source) == nullptr;
    if (gone && !id.address_gone) queue(id, EventType::kAddrChange);
    id.address_gone = gone;
  });
}

/// Peers are told as if every program destroyed what it has.
void Service::device_removed(Time now) {
  now_ = now;
  removed_ = true;
  identifiers_.for_each([&](Identifier& id) {
    if (id.state == IdentifierState::kRemoved) return;
    if (id.state == IdentifierState::kListen) leave_listening(id);
    stop_resolving(id);
    end_connection(id);
    if (id.holds_port) ports_of(id.space).release(id.number.value, id.local.port);
    id.holds_port = false;
    id.state = IdentifierState::kRemoved;
    queue(id, EventType::kDeviceRemoval);
  });
}

}  // namespace softhca::management::rdma_cm
