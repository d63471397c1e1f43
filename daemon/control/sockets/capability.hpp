// What a process may do on this machine beyond its user's rights.
#pragma once

#include "daemon/control/sockets/unix_socket.hpp"

namespace softhca::control {

/// May the process bind ports below 1024? As for sockets: CAP_NET_BIND_SERVICE, in the user
/// namespace of the daemon. False also if it cannot be found out.
bool may_bind_low_ports(const PeerIdentity& peer);

}  // namespace softhca::control
