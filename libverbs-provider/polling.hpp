// Taking completions out of a completion queue: what ibv_poll_cq() and ibv_start_poll() have in
// common.
#pragma once

#include <cstdint>

#include "libverbs-provider/queues.hpp"

namespace softhca::provider {

/// The next completion, of a backlog or of the ring; false when there is none. REQUIRES: the lock
/// of `cq` held.
bool take_completion(Cq& cq, ibv_wc& wc, std::uint64_t& timestamp);

/// To be called when there was no completion: gives the core away now and then. 0, or EIO when
/// there will be none ever again.
int poll_in_vain(Cq& cq);

/// Installs the calls of an extended completion queue.
void install_poll_operations(Cq& cq, std::uint64_t wc_flags);

}  // namespace softhca::provider
