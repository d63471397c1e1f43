// SPDX-License-Identifier: Apache-2.0

#include "daemon/counters/device_port.hpp"

#include <algorithm>

#include "daemon/counters/port_counters.hpp"

namespace softhca::counters {
namespace {

/// Returns the packets that a port received and that could not be parsed, for any tenant.
std::uint64_t malformed_on(const PortBinding& binding) {
  return sum_of(Row<PortDropCounters>{nullptr, "", kMalformed}, binding.drops);
}

/// Returns `all` - `part`, at least 0: the engine counts during the reads, and the two reads are
/// not ordered.
std::uint64_t beyond(std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); }

}  // namespace

management::PmaCounters port_counters_of(const engine::Tenant& tenant,
                                         const std::vector<std::unique_ptr<PortBinding>>& ports) {
  management::PmaCounters out;
  const engine::WireCounters& own = tenant.counters.wire;
  out.transmitted_multicast = own.tx_multicast.value();
  out.received_multicast = own.rx_multicast.value();
  out.transmitted_bytes = own.tx_octets.value();
  out.received_bytes = own.rx_octets.value();
  out.transmitted_packets = own.tx_packets.value();
  out.received_packets = own.rx_packets.value();
  out.transmitted_unicast = beyond(out.transmitted_packets, out.transmitted_multicast);
  out.received_unicast = beyond(out.received_packets, out.received_multicast);
  out.transmit_discards = own.unresolved.value();
  out.link_downed = tenant.control.link_downed.value();
  for (const auto& binding : ports) {
    if (!tenant.is_on(binding->id)) continue;
    const port::PortCounters device = binding->port->counters();
    out.receive_errors += malformed_on(*binding) + device.rx_missed;
    out.bad_icrc +=
        binding->drops.parse[static_cast<std::size_t>(wire::DropReason::kBadIcrc)].value();
    out.transmit_discards += device.tx_dropped;
  }
  return out;
}

}  // namespace softhca::counters
