// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/performance.hpp"

#include "daemon/engine/port_counters.hpp"
#include "daemon/roce/performance/performance_agent.hpp"

namespace softhca::control {
namespace {

constexpr auto kClass = static_cast<std::uint8_t>(wire::ManagementClass::kPerformance);
constexpr std::uint8_t kDevicePort = 1;  ///< port of the device, as programs number it

management::PortCounters counters_of(const Adapter& adapter, const engine::Tenant& tenant) {
  const engine::DevicePortCounters c = engine::port_counters_of(tenant, adapter.engine.ports);
  return {.transmitted_bytes = c.transmitted_octets,
          .received_bytes = c.received_octets,
          .transmitted_packets = c.transmitted_packets,
          .received_packets = c.received_packets,
          .transmitted_unicast = c.transmitted_unicast(),
          .received_unicast = c.received_unicast(),
          .transmitted_multicast = c.transmitted_multicast,
          .received_multicast = c.received_multicast,
          .link_downed = tenant.control.link_downed.value(),
          .receive_errors = c.receive_errors,
          .transmit_discards = c.transmit_discards};
}

/// Answers the queue pair that sent the request.
void answer(GeneralServices& agent, const Adapter& adapter, const engine::Tenant& tenant,
            const engine::Datagram& request) {
  if (request.length != wire::kMadBytes) return;
  const auto mad = management::answer(std::span<const std::byte, wire::kMadBytes>(request.payload),
                                      kDevicePort, counters_of(adapter, tenant));
  if (!mad) return;
  engine::Datagram reply = request;
  reply.payload = *mad;
  agent.send(reply);
}

}  // namespace

Outcome add_performance_agent(GeneralServices& agent, const Adapter& adapter,
                              const engine::Tenant& tenant) {
  return agent.add_client(tenant, kClass,
                          {.name = "performance agent",
                           .receive = [&agent, &adapter, &tenant](const engine::Datagram& request) {
                             answer(agent, adapter, tenant, request);
                           }});
}

void remove_performance_agent(GeneralServices& agent, const engine::Tenant& tenant) {
  agent.remove_client(tenant, kClass);
}

}  // namespace softhca::control
