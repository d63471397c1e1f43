// What the port of a tenant's device has counted, in the terms of IBA 16.1.3.5 (PortCounters): for
// the files of the device tree and for the performance agent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

/// Data and packets are those of the tenant's own queue pairs; what goes to another queue pair of
/// this daemon passes no port and is not among them. Errors that show on a port before it is known
/// whose packet it was count for every tenant that has an address there.
struct DevicePortCounters {
  std::uint64_t transmitted_octets = 0;  ///< of frames from the Ethernet header on, without FCS
  std::uint64_t received_octets = 0;
  std::uint64_t transmitted_packets = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t transmitted_multicast = 0;  ///< of these
  std::uint64_t received_multicast = 0;     ///< a packet counts for each queue pair that it is for
  std::uint64_t receive_errors = 0;         ///< malformed, bad ICRC, or no room when they came
  std::uint64_t bad_icrc = 0;               ///< of these
  std::uint64_t transmit_discards = 0;      ///< refused by the device, or no neighbour to send to

  std::uint64_t transmitted_unicast() const {
    return beyond(transmitted_packets, transmitted_multicast);
  }
  std::uint64_t received_unicast() const { return beyond(received_packets, received_multicast); }

 private:
  /// The engine counts while they are read, and nothing orders the two numbers.
  static std::uint64_t beyond(std::uint64_t all, std::uint64_t part) {
    return all - std::min(all, part);
  }
};

/// The counters as they stand. To be called on the control thread or the engine's:
/// `tenant.addresses` must not change.
DevicePortCounters port_counters_of(const Tenant& tenant,
                                    const std::vector<std::unique_ptr<PortBinding>>& ports);

}  // namespace softhca::engine
