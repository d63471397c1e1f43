// The ibv_wr_ calls of extended queue pairs.
#pragma once

#include <cstdint>

#include "libverbs-provider/queues.hpp"

namespace softhca::provider {

/// Are all of these (enum ibv_qp_create_send_ops_flags) known and possible on queue pairs of this
/// type? 0 or an errno value.
int check_send_operations(ibv_qp_type type, std::uint64_t operations);

/// Makes a queue pair an extended one, for these operations. REQUIRES: check_send_operations() had
/// no objection.
void install_send_operations(Qp& qp, std::uint64_t operations);

}  // namespace softhca::provider
