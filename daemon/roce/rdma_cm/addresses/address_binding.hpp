// SPDX-License-Identifier: Apache-2.0

// BIND_IP: binds an identifier to an address and a port of the tenant.
#pragma once

#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

class AddressBinding {
 public:
  /// All outlive it.
  AddressBinding(const TenantGids& addresses, PortSpaces& ports, IdentifierTable& identifiers)
      : addresses_(addresses), ports_(ports), identifiers_(identifiers) {}

  int bind_ip(const ChannelCommand& command);

  /// Binds the identifier. Returns 0, EINVAL, EADDRNOTAVAIL, EADDRINUSE or EACCES.
  int bind(const ChannelCommand& command, Identifier& id, SocketAddress address);

 private:
  const TenantGids& addresses_;
  PortSpaces& ports_;
  IdentifierTable& identifiers_;
};

}  // namespace softhca::management::rdma_cm
