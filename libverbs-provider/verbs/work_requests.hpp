// SPDX-License-Identifier: Apache-2.0

// The ibv_wr_ calls of extended queue pairs.
#pragma once

#include <cstdint>

#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {

/// Checks that all of these operations (enum ibv_qp_create_send_ops_flags) are known and possible
/// on queue pairs of this type. Returns 0 or an errno value.
int check_send_operations(ibv_qp_type type, std::uint64_t operations);

/// Makes a queue pair an extended one, for these operations. REQUIRES: check_send_operations()
/// returned 0.
void install_send_operations(Qp& qp, std::uint64_t operations);

}  // namespace softhca::provider
