// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/port_counters.hpp"

namespace softhca::engine {
namespace {

/// Returns the packets that a port received and that could not be parsed, for any tenant.
std::uint64_t malformed_on(const PortBinding& binding) {
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i < binding.drops.parse.size(); ++i)
    if (!wire::is_foreign(static_cast<wire::DropReason>(i))) sum += binding.drops.parse[i].value();
  return sum;
}

}  // namespace

DevicePortCounters port_counters_of(const Tenant& tenant,
                                    const std::vector<std::unique_ptr<PortBinding>>& ports) {
  DevicePortCounters out;
  const TenantCounters& own = tenant.counters;
  out.transmitted_multicast = own.wire.tx_multicast.value();
  out.received_multicast = own.wire.rx_multicast.value();
  out.transmitted_octets = own.wire.tx_octets.value();
  out.received_octets = own.wire.rx_octets.value();
  out.transmitted_packets = own.wire.tx_packets.value();
  out.received_packets = own.wire.rx_packets.value();
  out.transmit_discards = own.wire.unresolved.value();
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

}  // namespace softhca::engine
