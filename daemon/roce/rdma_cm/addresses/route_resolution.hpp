// SPDX-License-Identifier: Apache-2.0

// RESOLVE_ROUTE and QUERY_ROUTE, and the path record that a program may supply instead
// (RDMA_OPTION_IB_PATH).
#pragma once

#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class RouteResolution {
 public:
  /// All outlive it.
  RouteResolution(const RdmaCmEnvironment& environment, IdentifierTable& identifiers,
                  EventQueues& events)
      : environment_(environment), identifiers_(identifiers), events_(events) {}
  RouteResolution(const RouteResolution&) = delete;
  RouteResolution& operator=(const RouteResolution&) = delete;

  int resolve_route(const ChannelCommand& command);
  int query_route(const ChannelCommand& command);

  /// Takes path records from a program. Returns 0 or EINVAL.
  int set_path(const ChannelCommand& command, Identifier& id, Body records);

 private:
  void resolved(Identifier& id, const ResolvedRoute& route);

  const RdmaCmEnvironment& environment_;
  IdentifierTable& identifiers_;
  EventQueues& events_;
};

}  // namespace softhca::management::rdma_cm
