// Local delivery while there are faults: messages that are lost, or find no receive, as the packets
// would that they are not made of. Each time that they would be sent again is a new chance.
#pragma once

#include "daemon/engine/local_link.hpp"

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
