// SPDX-License-Identifier: Apache-2.0

// The state of a connection, for a StateWriter or a StateReader.
#pragma once

#include "daemon/roce/cm/connection.hpp"
#include "daemon/roce/cm/state_records.hpp"

namespace softhca::management::cm {

template <class Archive, class P>
void state_of_path(Archive& archive, P& path) {
  archive(path.local, path.remote, path.flow_label, path.traffic_class, path.hop_limit,
          path.standing);
}

template <class Archive, class N>
void state_of_negotiation(Archive& archive, N& pair) {
  archive(pair.transport, pair.local_qpn, pair.remote_qpn, pair.sq_psn, pair.rq_psn, pair.pkey,
          pair.sl, pair.path_mtu, pair.responder_resources, pair.initiator_depth, pair.retry_count,
          pair.rnr_retry_count, pair.packet_life_time, pair.ack_timeout, pair.peer_has_srq);
}

/// `c`: a Connection, constant for a StateWriter.
template <class Archive, class C>
void state_of(Archive& archive, C& c) {
  archive(c.id, c.remote_comm_id, c.remote_ca_guid, c.cookie, c.has_user, c.active, c.state);
  state_of_path(archive, c.path);
  archive(c.service_id, c.transaction_id);
  state_of_negotiation(archive, c.queue_pair);
  c.retransmission.list_state(archive);
  archive(c.linger, c.give_up_at, c.places.deadline, c.places.peer_listed,
          c.places.queue_pair_listed);
}

}  // namespace softhca::management::cm
