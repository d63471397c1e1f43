// SPDX-License-Identifier: Apache-2.0

// The ports of each port space, and the identifiers that hold them.
#pragma once

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/addresses/port_table.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

class PortSpaces {
 public:
  /// `random` of the environment chooses ephemeral ports. The channels name the processes that hold
  /// ports. All outlive the table.
  PortSpaces(cm::CmEnvironment& environment, const ChannelTable& channels,
             IdentifierTable& identifiers, const PortRange& ephemeral)
      : environment_(environment),
        channels_(channels),
        identifiers_(identifiers),
        tcp_(ephemeral),
        udp_(ephemeral),
        ipoib_(ephemeral) {}

  /// Assigns the port of the identifier's local address, or a port of the range if that is 0.
  /// Returns 0, EACCES, EADDRINUSE or EADDRNOTAVAIL.
  int bind(const ChannelCommand& command, Identifier& id);
  /// Makes its port exclusive. Returns 0, EADDRINUSE or EADDRNOTAVAIL.
  int listen(const ChannelCommand& command, const Identifier& id);
  /// Claims the port that an identifier of an earlier adapter holds. Returns false if it cannot.
  bool restore(const Identifier& id);
  /// Updates the claim after a change of the identifier's address or options.
  void claim_changed(const Identifier& id);
  /// Releases the identifier's port, if it has one.
  void release(Identifier& id);

 private:
  PortTable& of(PortSpace space);
  int check(const ChannelCommand& command, const Identifier& id,
            const PortTable::Conflict& conflict);

  cm::CmEnvironment& environment_;
  const ChannelTable& channels_;
  IdentifierTable& identifiers_;
  PortTable tcp_;
  PortTable udp_;
  PortTable ipoib_;
};

}  // namespace softhca::management::rdma_cm
