// SPDX-License-Identifier: Apache-2.0

// GET_EVENT and MIGRATE_ID: reading events, and moving an identifier with its events.
#pragma once

#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/multicast_joins.hpp"

namespace softhca::management::rdma_cm {

class EventCommands {
 public:
  /// All outlive it.
  EventCommands(IdentifierTable& identifiers, EventQueues& events, MulticastJoins& multicast)
      : identifiers_(identifiers), events_(events), multicast_(multicast) {}

  int get_event(const ChannelCommand& command);
  int migrate_id(const ChannelCommand& command);

 private:
  IdentifierTable& identifiers_;
  EventQueues& events_;
  MulticastJoins& multicast_;
};

}  // namespace softhca::management::rdma_cm
