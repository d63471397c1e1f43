// Commands of the ibv_wr_ calls as they come into virtual collect buffers: piece by piece
// (mechanism C2), where $SOFTHCA_KICK says so. The piece with the length and the number in the send
// queue comes last, when ibv_wr_complete() says that the commands are to be executed; an abort
// leaves it out. Everything here REQUIRES the lock of the send queue.
#pragma once

#include <cstdint>

#include "libverbs-provider/queues.hpp"

namespace softhca::provider {

/// The command that was begun gets a VCB, if those before it in its chain have one and one is free.
void begin_pieces(Qp& qp);
/// Segments [first, end) of its header are there.
void show_header(const Qp& qp, unsigned first, unsigned end);
/// More of its payload stands in the send queue; `all`: no more will come.
void show_payload(Qp& qp, bool all);

/// The chain is posted, and stands in the send queue: the last pieces of those in VCBs, and a
/// doorbell for the others. 0 or an errno value.
int finish_pieces(Qp& qp);
/// The chain is not posted.
void withdraw_pieces(Qp& qp);

}  // namespace softhca::provider
