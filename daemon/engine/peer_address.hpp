// By which of a tenant's addresses the peer of an RC or UC queue pair knows it, where a change of
// addresses has left that open (Tenant::goes_by).
#pragma once

#include "daemon/engine/objects.hpp"

namespace softhca::engine {

/// Comes it from the peer, to an address that this end goes by? Answers then come from there.
bool is_from_peer_of(QueuePair& qp, const wire::ParsedFrame& frame);

/// A retransmission is due. As long as the peer has not been heard each comes from another of the
/// addresses that it may know.
void try_other_source(QueuePair& qp);

}  // namespace softhca::engine
