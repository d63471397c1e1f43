// SPDX-License-Identifier: Apache-2.0

// The counters of a port (InfiniBand specification, volume 1, 16.1.3.5 and 16.1.4.11): their names
// in sysfs, and their places in the attributes of the performance agent.
#pragma once

#include <cstdint>

namespace softhca::management {

/// Counters of a port at full width.
struct PmaCounters {
  std::uint64_t transmitted_bytes = 0;  ///< of frames from the Ethernet header on, without FCS
  std::uint64_t received_bytes = 0;
  std::uint64_t transmitted_packets = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t transmitted_unicast = 0;  ///< of these
  std::uint64_t received_unicast = 0;
  std::uint64_t transmitted_multicast = 0;
  std::uint64_t received_multicast = 0;  ///< once for each queue pair that receives it
  std::uint64_t link_downed = 0;
  std::uint64_t receive_errors = 0;              ///< malformed, bad ICRC, or no buffer on arrival
  std::uint64_t bad_icrc = 0;                    ///< of these; in no attribute
  std::uint64_t transmit_discards = 0;           ///< refused by the device, or neighbour unknown
  std::uint64_t receive_constraint_errors = 0;   ///< refused by policy
  std::uint64_t transmit_constraint_errors = 0;  ///< refused by policy
  std::uint64_t buffer_overruns = 0;             ///< lost for lack of buffers
  std::uint64_t queue_pair_1_dropped = 0;  ///< datagrams that the general services agent discarded
  std::uint64_t transmit_waits = 0;        ///< times a packet had to wait before it was sent
};

struct PmaCounter {
  const char* file;                               ///< in sysfs; null: none
  std::uint64_t PmaCounters::*counter = nullptr;  ///< null: stays 0
  std::uint8_t offset = 0;  ///< in the attribute PortCounters; 0: none, or not a whole byte
  std::uint8_t bytes = 0;
  std::uint8_t extended = 0;  ///< offset in PortCountersExtended, of 8 bytes; 0: none
  std::uint8_t unit = 1;      ///< bytes are counted in words of 4

  std::uint64_t value(const PmaCounters& of) const {
    return counter == nullptr ? 0 : of.*counter / unit;
  }
};

inline constexpr PmaCounter kPmaCounters[] = {
    {"link_downed", &PmaCounters::link_downed, 7, 1},
    {"port_rcv_errors", &PmaCounters::receive_errors, 8, 2},
    {"port_xmit_discards", &PmaCounters::transmit_discards, 14, 2},
    {"port_xmit_constraint_errors", &PmaCounters::transmit_constraint_errors, 16, 1},
    {"port_rcv_constraint_errors", &PmaCounters::receive_constraint_errors, 17, 1},
    {"excessive_buffer_overrun_errors", &PmaCounters::buffer_overruns},
    {nullptr, &PmaCounters::queue_pair_1_dropped, 20, 2},
    {"port_xmit_data", &PmaCounters::transmitted_bytes, 24, 4, 8, 4},
    {"port_rcv_data", &PmaCounters::received_bytes, 28, 4, 16, 4},
    {"port_xmit_packets", &PmaCounters::transmitted_packets, 32, 4, 24},
    {"port_rcv_packets", &PmaCounters::received_packets, 36, 4, 32},
    {nullptr, &PmaCounters::transmit_waits, 40, 4},
    {"unicast_xmit_packets", &PmaCounters::transmitted_unicast, 0, 0, 40},
    {"unicast_rcv_packets", &PmaCounters::received_unicast, 0, 0, 48},
    {"multicast_xmit_packets", &PmaCounters::transmitted_multicast, 0, 0, 56},
    {"multicast_rcv_packets", &PmaCounters::received_multicast, 0, 0, 64},
    // The link of a RoCE port is Ethernet, not InfiniBand. It has no symbols, no flow control, no
    // virtual lane 15 and no end-bad-packet delimiter, and no switch filters by partition.
    {"symbol_error"},
    {"link_error_recovery"},
    {"local_link_integrity_errors"},
    {"VL15_dropped"},
    {"port_rcv_remote_physical_errors"},
    {"port_rcv_switch_relay_errors"},
};

}  // namespace softhca::management
