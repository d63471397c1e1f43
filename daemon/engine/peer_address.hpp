// The address by which the peer of an RC or UC queue pair knows it, where a change of addresses has
// left that open (Tenant::answers_to).
#pragma once

#include "daemon/engine/objects.hpp"

namespace softhca::engine {

/// True when the packet comes from the peer, to an address that this end answers to. From then on
/// answers come from that address.
bool is_from_peer_of(QueuePair& qp, const wire::ParsedFrame& frame);

/// Chooses the source of a retransmission: until a packet of the peer has come, each has another
/// one, in turn, of those that the peer may know.
void try_other_source(QueuePair& qp);

}  // namespace softhca::engine
