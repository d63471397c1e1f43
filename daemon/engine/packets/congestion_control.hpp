// SPDX-License-Identifier: Apache-2.0

// Congestion on the way (annex A17 of the InfiniBand specification). The engine reports marks of
// switches to the sender of the packet. A report of a peer slows the queue pair down
// (reaction_point.hpp).
//
// A connected queue pair reacts as one flow with everything that it sends, read responses included,
// but not its acknowledgements. The datagrams of a tenant to one peer react together
// (UdCongestion).
#pragma once

#include "daemon/engine/diagnostics/qp_history.hpp"
#include "daemon/engine/packets/packet_io.hpp"

namespace softhca::engine {

class CongestionControl {
 public:
  CongestionControl(const StepClock& clock, const CongestionParameters& parameters,
                    PacketIo& packets, QpHistory& history)
      : clock_(clock), parameters_(parameters), packets_(packets), history_(history) {}

  /// Reports a marked packet for `qp` to its sender. If the link address of the sender is not
  /// known, or no frame is free, the next marked packet is reported instead.
  void notify_sender(PortBinding& binding, QueuePair& qp, const wire::ParsedFrame& frame);
  /// True if notifications slow queue pairs down.
  bool reacts() const { return parameters_.mode == CongestionMode::kOn; }
  /// Slows `qp` down, since its peer has reported a mark. REQUIRES: it is connected.
  void receive_notification(QueuePair& qp);
  /// Sends a packet of `qp`. While the queue pair is slowed down, the packet goes or waits as if
  /// the port were full (PacketIo::send()).
  transport::SendResult send(QueuePair& qp, Route& route, const wire::Headers& h,
                             const transport::PayloadSource& payload) {
    return qp.connection.flow.limited() && payload.length != 0
               ? send_paced(qp, route, h, payload)
               : packets_.send(route, h, payload, &qp);
  }
  /// Ends the slowdown of the queue pair.
  void release(QueuePair& qp);

 private:
  transport::SendResult send_paced(QueuePair& qp, Route& route, const wire::Headers& h,
                                   const transport::PayloadSource& payload);
  void note_rate(QueuePair& qp, double before);

  const StepClock& clock_;
  const CongestionParameters& parameters_;
  PacketIo& packets_;
  QpHistory& history_;
};

}  // namespace softhca::engine
