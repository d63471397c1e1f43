// SPDX-License-Identifier: Apache-2.0

// Sessions in which something failed that their objects depend on: the session memory (for queue
// pairs that send), or a completion queue (for objects that complete into it, IBA 10.2.6.3).
#pragma once

#include <cstddef>

#include "daemon/engine/receive/receive_queues.hpp"

namespace softhca::engine {

/// Most objects that are checked in one poll step, however many a session has.
inline constexpr std::size_t kFailedPerStep = 32;

/// Lists all objects of the session for a check, since something that they depend on has failed.
void look_through(CpuScheduler& cpu, Session& session);
/// Checks some objects of the sessions that look_through() has listed. Returns how many.
std::size_t fail_some(CpuScheduler& cpu, AsyncEvents& async_events, ReceiveQueues& receive_queues);

}  // namespace softhca::engine
