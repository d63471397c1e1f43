// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/faulty_link.hpp"

#include "daemon/roce/transport/codes.hpp"

namespace softhca::engine {

using transport::Local;
using transport::SendObstacle;

/// True if the message still waits for `what`; it is sent again only when that wait is over.
bool FaultyLink::still_waits(SendObstacle what) const {
  return local().state() == Local::State::kWaiting && now_ < local().deadline() &&
         local().progress().obstacle == what;
}

const transport::LocalPeer* FaultyLink::find_peer() {
  lost_ = false;
  const transport::LocalPeer* found = QpLocalLink::find_peer();
  if (found == nullptr || local().idle() || local().state() == Local::State::kMoving ||
      still_waits(SendObstacle::kReceiver) || still_waits(SendObstacle::kPeerRate))
    return found;
  const bool timed_out = local().progress().obstacle == SendObstacle::kPeer &&
                         now_ >= local().deadline() &&
                         transport::ack_timeout(qp_.rc.timeout) != Duration::zero();
  lost_ = faults_.loses(qp_, *peer(), still_waits(SendObstacle::kPeer));
  if (lost_) return nullptr;
  // If the message is lost again, the state machine counts the timeout.
  if (timed_out && !local().misses(*found)) qp_.count(transport::Count::kAckTimeouts);
  return found;
}

transport::LocalLink::Draw FaultyLink::draw() {
  if (faults_.withholds(*peer(), still_waits(SendObstacle::kReceiver))) return Draw::kEmpty;
  return QpLocalLink::draw();
}

}  // namespace softhca::engine
