// SPDX-License-Identifier: Apache-2.0

// The address at which the peer of an RC or UC queue pair reaches it. A change of addresses can
// leave it open which one the peer uses (Tenant::answers_to).
#pragma once

#include "daemon/engine/records/objects.hpp"

namespace softhca::engine {

/// True if the packet comes from the peer, to an address that this end answers to. That address is
/// the source of answers from then on.
bool is_from_peer_of(QueuePair& qp, const wire::ParsedFrame& frame);

/// Chooses the source address of a retransmission. Until a packet of the peer has arrived, each
/// retransmission uses the next of the addresses that the peer may know.
void try_other_source(QueuePair& qp);

}  // namespace softhca::engine
