// SPDX-License-Identifier: Apache-2.0

// Packets out and in, and the congestion that they meet.
#pragma once

#include <cstdint>

#include "daemon/engine/packets/congestion_control.hpp"
#include "daemon/engine/packets/packet_io.hpp"
#include "daemon/engine/queue_pairs/ud_congestion.hpp"

namespace softhca::engine {

struct Wire {
  Wire(const StepClock& clock, const LocalAddresses& addresses, CpuScheduler& cpu,
       PayloadReader& payloads, EventLog& log, QpHistory& history, const Capture::Sizes& sizes)
      : packets(clock, congestion_parameters, addresses, cpu, payloads, log, sizes),
        congestion(clock, congestion_parameters, packets, history),
        datagrams(clock, addresses, cpu, packets, static_cast<std::uint16_t>(sizes.tenants)) {}

  CongestionParameters congestion_parameters;
  PacketIo packets;
  CongestionControl congestion;
  UdCongestion datagrams;
};

}  // namespace softhca::engine
