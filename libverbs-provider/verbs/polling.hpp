// SPDX-License-Identifier: Apache-2.0

// Takes completions from a completion queue: the common part of ibv_poll_cq() and ibv_start_poll().
#pragma once

#include <cstdint>

#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {

/// Takes the next completion from the backlog or the ring. False: there is none. REQUIRES: the lock
/// of `cq` held.
bool take_completion(Cq& cq, ibv_wc& wc, std::uint64_t& timestamp);

/// Called if a poll found no completion; yields the core now and then. Returns 0, or EIO if the
/// daemon has ended.
int poll_in_vain(Cq& cq);

/// Refuses a poll, as the daemon has ended. Returns EIO.
int refuse_poll(Cq& cq);

/// Sets the calls of an extended completion queue.
void install_poll_operations(Cq& cq, std::uint64_t wc_flags);

}  // namespace softhca::provider
