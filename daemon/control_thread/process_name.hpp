// SPDX-License-Identifier: Apache-2.0

// The name of a process.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/control_thread/peer_identity.hpp"

namespace softhca::control {

/// Returns the name in /proc/PID/comm. Empty: the process has gone.
std::string name_of_process(pid_t pid);
/// Replaces characters that could do harm in logs, in metrics and on terminals by '?'. Processes
/// choose their names.
std::string printable(std::string name);
/// Returns a text for messages: "process 4711 (fio, uid 1000)".
std::string describe(const PeerIdentity& process);

}  // namespace softhca::control
