// SPDX-License-Identifier: Apache-2.0

// Connections and listeners of rdma_cm, for operators.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "daemon/roce/cm/manager.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

/// A connection, or a service ID resolution.
struct ConnectionInfo {
  IdentifierState state{};
  /// Its state in the connection manager; empty once it has ended there.
  std::optional<cm::State> manager_state;
  Role role{};
  SocketAddress local;
  SocketAddress remote;
  PortSpace space{};
  std::uint64_t service_id = 0;
  Qpn qpn;
  pid_t process = 0;  ///< 0: a request that no process has read
};

struct ListenerInfo {
  SocketAddress local;
  PortSpace space{};
  std::uint32_t backlog = 0;
  std::uint32_t waiting = 0;  ///< requests that no process has read
  pid_t process = 0;
};

/// Returns nothing if the identifier never had a connection.
std::optional<ConnectionInfo> connection_of(const Identifier& id, const ChannelTable& channels,
                                            const cm::Manager& manager);
/// Returns nothing if the identifier does not listen.
std::optional<ListenerInfo> listener_of(const Identifier& id, const ChannelTable& channels);

}  // namespace softhca::management::rdma_cm
