// The name of a process at the other end of a socket.
#pragma once

#include <sys/types.h>

#include <string>

namespace softhca::control {

/// As in /proc/PID/comm; empty: it has gone.
std::string name_of_process(pid_t pid);

}  // namespace softhca::control
