// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/views.hpp"

namespace softhca::management::rdma_cm {

std::optional<ConnectionInfo> connection_of(const Identifier& id, const ChannelTable& channels,
                                            const cm::Manager& manager) {
  if (!id.connection.role) return std::nullopt;
  const Role role = *id.connection.role;
  ConnectionInfo info{.state = id.state,
                      .role = role,
                      .local = id.local,
                      .remote = id.remote,
                      .space = id.space,
                      .qpn = id.connection.qpn,
                      .process = channels.process_of(id)};
  info.service_id = id.service_id(role == Role::kActive ? id.remote.port : id.local.port);
  if (id.connection.id) info.manager_state = manager.state(*id.connection.id);
  return info;
}

std::optional<ListenerInfo> listener_of(const Identifier& id, const ChannelTable& channels) {
  if (id.state != IdentifierState::kListen) return std::nullopt;
  return ListenerInfo{.local = id.local,
                      .space = id.space,
                      .backlog = id.listener.backlog,
                      .waiting = id.listener.waiting,
                      .process = channels.process_of(id)};
}

}  // namespace softhca::management::rdma_cm
