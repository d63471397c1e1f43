// SPDX-License-Identifier: Apache-2.0

// SET_OPTION.
#pragma once

#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/addresses/route_resolution.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

class IdentifierOptions {
 public:
  /// All outlive it.
  IdentifierOptions(IdentifierTable& identifiers, PortSpaces& ports, RouteResolution& routes)
      : identifiers_(identifiers), ports_(ports), routes_(routes) {}

  /// Handles SET_OPTION. The option's value follows the 24 bytes of the command.
  int set_option(const ChannelCommand& command);

 private:
  int set_id_option(const ChannelCommand& command, Identifier& id, std::uint32_t name, Body value);

  IdentifierTable& identifiers_;
  PortSpaces& ports_;
  RouteResolution& routes_;
};

}  // namespace softhca::management::rdma_cm
