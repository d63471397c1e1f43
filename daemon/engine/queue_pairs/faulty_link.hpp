// SPDX-License-Identifier: Apache-2.0

// Local delivery while there are faults. A message is lost, or finds no receive, as its packets
// would be on the wire. The fault draws anew each time that the message would be sent again.
#pragma once

#include "daemon/engine/queue_pairs/local_link.hpp"

namespace softhca::engine {

class FaultyLink final : public QpLocalLink {
 public:
  /// REQUIRES: the queue pair is local, and there are faults.
  FaultyLink(const TransportParts& parts, QueuePair& qp, Time now)
      : QpLocalLink(parts, qp), faults_(parts.faults), qp_(qp), now_(now) {}

  const transport::LocalPeer* find_peer() override;
  Draw draw() override;

 private:
  const transport::Local& local() const { return std::get<transport::Local>(qp_.transport); }
  bool still_waits(transport::SendObstacle what) const;

  Faults& faults_;
  QueuePair& qp_;
  const Time now_;
};

}  // namespace softhca::engine
