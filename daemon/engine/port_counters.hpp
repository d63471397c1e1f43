// SPDX-License-Identifier: Apache-2.0

// The counters of the port of a tenant's device, in the terms of IBA 16.1.3.5 (PortCounters). The
// files of the device tree and the performance agent show them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/state/tenant.hpp"

namespace softhca::engine {

/// Data and packets are those of the tenant's own queue pairs. Packets to other queue pairs of this
/// daemon pass no port and do not count. An error that a port finds before the tenant of the packet
/// is known counts for every tenant that has an address there.
struct DevicePortCounters {
  std::uint64_t transmitted_octets = 0;  ///< of frames from the Ethernet header on, without FCS
  std::uint64_t received_octets = 0;
  std::uint64_t transmitted_packets = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t transmitted_multicast = 0;  ///< of these
  std::uint64_t received_multicast = 0;     ///< once for each queue pair that receives it
  std::uint64_t receive_errors = 0;         ///< malformed, bad ICRC, or no buffer on arrival
  std::uint64_t bad_icrc = 0;               ///< of these
  std::uint64_t transmit_discards = 0;      ///< refused by the device, or neighbour unknown

  std::uint64_t transmitted_unicast() const {
    return beyond(transmitted_packets, transmitted_multicast);
  }
  std::uint64_t received_unicast() const { return beyond(received_packets, received_multicast); }

 private:
  /// Returns `all` - `part`, at least 0: the engine counts during the reads, and the two reads are
  /// not ordered.
  static std::uint64_t beyond(std::uint64_t all, std::uint64_t part) {
    return all - std::min(all, part);
  }
};

/// Returns the current counters. REQUIRES: called on the control thread or the engine's thread,
/// since `tenant.addresses` must not change.
DevicePortCounters port_counters_of(const Tenant& tenant,
                                    const std::vector<std::unique_ptr<PortBinding>>& ports);

}  // namespace softhca::engine
