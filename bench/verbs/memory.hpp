// SPDX-License-Identifier: Apache-2.0

// The memory that objects of a tenant cost softhcad.
#pragma once

#include <string>

namespace softhca::bench {

/// Prints one line of JSON: the bytes of memory of the daemon of $SOFTHCA_RUNTIME_DIR, resident (as
/// `top` shows it, and its page tables) and without what it shares. Returns the exit code.
int measure_daemon();

/// Makes sessions, queue pairs, completion queues and memory regions, with the device of a tenant
/// of that daemon. Prints one line of JSON: the bytes that each object adds. REQUIRES: no other
/// program uses the daemon. Returns the exit code.
int measure_memory(const std::string& device, int gid_index);

}  // namespace softhca::bench
