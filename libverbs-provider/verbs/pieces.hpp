// SPDX-License-Identifier: Apache-2.0

// Writes commands of the ibv_wr_ calls piece by piece into virtual collect buffers (mechanism C2),
// if $SOFTHCA_KICK selects that. The piece with the length and the sequence number comes last, at
// ibv_wr_complete(); an abort omits it. All functions here REQUIRE the lock of the send queue.
#pragma once

#include <cstdint>

#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {

/// Claims a VCB for the new command, if the commands before it in its chain have one and one is
/// free.
void begin_pieces(Qp& qp);
/// Writes segments [first, end) of its header.
void show_header(const Qp& qp, unsigned first, unsigned end);
/// Writes more of its payload from the send queue. `all`: the payload is complete.
void show_payload(Qp& qp, bool all);

/// Finishes a chain that is in the send queue: writes the last pieces of the commands in VCBs, and
/// rings a doorbell for the others. Returns 0 or an errno value.
int finish_pieces(Qp& qp);
/// Withdraws the chain instead of posting it.
void withdraw_pieces(Qp& qp);

}  // namespace softhca::provider
