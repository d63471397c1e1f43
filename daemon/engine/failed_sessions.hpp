// Sessions of which something has failed that their objects depend on: the session memory (for
// queue pairs that send), or a completion queue (for what completes into it, IBA 10.2.6.3).
#pragma once

#include <cstddef>

#include "daemon/engine/receive_queues.hpp"

namespace softhca::engine {

/// Objects that are looked at in one poll step, however many a session has.
inline constexpr std::size_t kFailedPerStep = 32;

/// Something that objects of the session depend on has failed: all of them are to be looked at.
void look_through(CpuScheduler& cpu, Session& session);
/// Looks at some objects of the sessions that look_through() has named. Returns how many.
std::size_t fail_some(CpuScheduler& cpu, AsyncEvents& async_events, ReceiveQueues& receive_queues);

}  // namespace softhca::engine
