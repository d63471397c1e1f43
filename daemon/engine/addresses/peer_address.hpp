// SPDX-License-Identifier: Apache-2.0

// The address at which the peer of an RC or UC queue pair reaches it. A change of addresses can
// leave it open which one the peer uses (Tenant::answers_to).
#pragma once

#include "daemon/engine/records/objects.hpp"

namespace softhca::engine {

/// Makes an address to which the peer has sent the source of answers. False: this end does not
/// answer to it.
bool answer_from(QueuePair& qp, const Gid& address);

/// True if the packet comes from the peer, to an address that this end answers to. That address is
/// the source of answers from then on.
inline bool is_from_peer_of(QueuePair& qp, const wire::ParsedFrame& frame) {
  const AddressPath& path = qp.connection.route.path;
  if (frame.source != path.destination) return false;
  if (frame.destination != path.source && !answer_from(qp, frame.destination)) return false;
  qp.connection.peer_seen = true;
  return true;
}

/// Chooses the source address of a retransmission. Until a packet of the peer has arrived, each
/// retransmission uses the next of the addresses that the peer may know.
void try_other_source(QueuePair& qp);

}  // namespace softhca::engine
