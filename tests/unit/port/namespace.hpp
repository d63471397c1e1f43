// SPDX-License-Identifier: Apache-2.0

// Moves a test into a network namespace of its own.
#pragma once

#include <sched.h>

#include <cstdlib>
#include <string>

namespace softhca::port {

/// False, for want of privilege, leaves everything as it was.
inline bool enter_new_namespace() { return unshare(CLONE_NEWNET) == 0; }

/// Runs a shell command that sets an interface up.
inline bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace softhca::port
