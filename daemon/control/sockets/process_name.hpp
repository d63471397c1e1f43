// The name of a process at the other end of a socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/control/sockets/unix_socket.hpp"

namespace softhca::control {

/// As in /proc/PID/comm; empty: it has gone.
std::string name_of_process(pid_t pid);
/// Processes choose their names, which end up in logs, in metrics and on terminals: what could do
/// harm there becomes '?'.
std::string printable(std::string name);
/// For messages: "process 4711 (fio, uid 1000)".
std::string describe(const PeerIdentity& process);

}  // namespace softhca::control
