// Completion queues that have overflowed: what completes into one goes to the error state
// (IBA 10.2.6.3).
#pragma once

#include "daemon/engine/completion_events.hpp"
#include "daemon/engine/receive_queues.hpp"

namespace softhca::engine {

/// One look at the queue pairs of a session and at all shared receive queues, however many of its
/// completion queues have overflowed in a step.
void fail_users_of_overflowed(CompletionEvents& completion_events, ReceiveQueues& receive_queues,
                              CpuScheduler& cpu);

}  // namespace softhca::engine
