// SPDX-License-Identifier: Apache-2.0

// Programs that share a processor with the daemon's engine, as /proc shows them. They and the
// engine then wait for each other's time slices.
#pragma once

#include <chrono>
#include <string>

#include "cli/admin_client.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {

/// Returns the processes of a tenant, at most 256, as `tenant.show` has them. Throws CommandError.
Json processes_of(AdminClient& daemon, const std::string& tenant);

/// Looks 20 times within `time` for threads of the processes that have run on the engine's
/// processor since the look before, beside an engine that works. `adapter`: the process with the
/// engine. Returns the processor, and each process with such a thread in at least five looks. Null:
/// /proc does not show the engine, as for a daemon in another PID namespace.
Json look_at_engine_processor(std::uint32_t adapter, const Json& processes,
                              std::chrono::duration<double> time);

/// Prints a line for each process that shares the engine's processor.
void print_sharers(const Json& engine_processor, const Output& out);

}  // namespace softhca::cli
