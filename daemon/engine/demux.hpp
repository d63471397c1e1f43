// SPDX-License-Identifier: Apache-2.0

// Finds the queue pair of each received packet, and checks whether the packet may go to it.
#pragma once

#include "daemon/engine/addresses/addressing.hpp"
#include "daemon/engine/datagrams/shared_qps_fairness.hpp"
#include "daemon/engine/queue_pairs/wire.hpp"
#include "daemon/engine/records/time_wait.hpp"
#include "daemon/engine/transport_driver.hpp"

namespace softhca::engine {

class Demux {
 public:
  Demux(const StepClock& clock, const QpTable& queue_pairs, const Addressing& addressing,
        Wire& wire, TimeWaitTable& time_wait, TransportDriver& transports, SharedQps& services)
      : clock_(clock),
        queue_pairs_(queue_pairs),
        addresses_(addressing.local),
        multicast_(addressing.multicast),
        packets_(wire.packets),
        congestion_(wire.congestion),
        datagrams_(wire.datagrams),
        time_wait_(time_wait),
        transports_(transports),
        services_(services) {}

  /// Hands the packet to its queue pair, or counts in `binding` why not.
  void receive(PortBinding& binding, const wire::ParsedFrame& frame);

 private:
  void take(PortBinding& binding, const wire::ParsedFrame& frame);
  bool is_ud_congestion(PortBinding& binding, const wire::ParsedFrame& frame);
  void receive_multicast(PortBinding& binding, const wire::ParsedFrame& frame);
  bool answer_late(const wire::ParsedFrame& frame);
  // demux_capture.cpp
  void take_shown(PortBinding& binding, const wire::ParsedFrame& frame);

  const StepClock& clock_;
  const QpTable& queue_pairs_;
  const LocalAddresses& addresses_;
  const Multicast& multicast_;
  PacketIo& packets_;
  CongestionControl& congestion_;
  UdCongestion& datagrams_;
  TimeWaitTable& time_wait_;
  TransportDriver& transports_;
  SharedQps& services_;
};

}  // namespace softhca::engine
