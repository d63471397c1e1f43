// SPDX-License-Identifier: Apache-2.0

// The memory that objects of a tenant cost softhcad.
#pragma once

#include <string>

namespace softhca::bench {

/// Makes sessions, queue pairs, completion queues and memory regions, with the device of a tenant
/// of the daemon of $SOFTHCA_RUNTIME_DIR. Prints one line of JSON: bytes of the daemon, and what
/// each object adds. REQUIRES: no other program uses this daemon. Returns the exit code.
int measure_memory(const std::string& device, int gid_index);

}  // namespace softhca::bench
