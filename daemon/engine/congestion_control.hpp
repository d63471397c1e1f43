// Congestion on the way: marks of switches are reported to the sender of the packet (annex A17 of
// the InfiniBand specification), and what peers report slows a queue pair down
// (transport/reaction_point).
//
// Connected queue pairs react, each as one flow with all it sends, read responses included, but not
// its acknowledgements. Of datagrams, those of a tenant to a peer do (DatagramControl).
#pragma once

#include "daemon/engine/packet_io.hpp"
#include "daemon/engine/qp_history.hpp"

namespace softhca::engine {

class CongestionControl {
 public:
  CongestionControl(const StepClock& clock, const CongestionParameters& parameters,
                    PacketIo& packets, QpHistory& history)
      : clock_(clock), parameters_(parameters), packets_(packets), history_(history) {}

  /// A marked packet for `qp` has come. Without its sender's link address, or without a free frame,
  /// the next marked packet is reported instead.
  void notify_sender(PortBinding& binding, QueuePair& qp, const wire::ParsedFrame& frame);
  /// Do notifications slow anything down?
  bool reacts() const { return parameters_.mode == CongestionMode::kOn; }
  /// The peer of `qp` has told of a mark. REQUIRES: it is connected.
  void receive_notification(QueuePair& qp);
  /// Sends a packet of `qp`. If the queue pair is slowed down, the packet goes or waits as if the
  /// port were full, see PacketIo::send().
  transport::SendResult send(QueuePair& qp, Route& route, const wire::Headers& h,
                             const transport::PayloadSource& payload) {
    return qp.connection.flow.limited() && payload.length != 0
               ? send_paced(qp, route, h, payload)
               : packets_.send(route, h, payload, &qp);
  }
  /// The queue pair is slowed down no more.
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
