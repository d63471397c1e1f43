// The ports of each port space, and the identifiers that hold them.
#pragma once

#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/identifier.hpp"
#include "daemon/management/rdma_cm/port_table.hpp"

namespace softhca::management::rdma_cm {

class PortSpaces {
 public:
  /// `random` of the environment chooses ephemeral ports; it outlives the table.
  PortSpaces(cm::Environment& environment, const PortRange& ephemeral)
      : environment_(environment), tcp_(ephemeral), udp_(ephemeral), ipoib_(ephemeral) {}

  /// The identifier takes the port of its local address, or any of the range if that is 0. 0, or
  /// EACCES, EADDRINUSE, EADDRNOTAVAIL.
  int bind(Identifier& id, bool may_bind_low_ports);
  /// From now on others cannot share its port: 0 or EADDRINUSE, EADDRNOTAVAIL.
  int listen(const Identifier& id);
  /// The identifier's address or options have changed.
  void claim_changed(const Identifier& id);
  /// Gives the identifier's port back, if it has one.
  void release(Identifier& id);

 private:
  PortTable& of(PortSpace space);

  cm::Environment& environment_;
  PortTable tcp_;
  PortTable udp_;
  PortTable ipoib_;
};

}  // namespace softhca::management::rdma_cm
