// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/performance.hpp"

#include "daemon/counters/device_port.hpp"
#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/roce/performance/performance_agent.hpp"

namespace softhca::control {
namespace {

constexpr auto kClass = static_cast<std::uint8_t>(wire::ManagementClass::kPerformance);
/// Answers the queue pair that sent the request.
void answer(GeneralServices& agent, const Adapter& adapter, const engine::Tenant& tenant,
            const engine::Datagram& request) {
  if (request.length != wire::kMadBytes) return;
  const engine::Tenant::Address* const asked = tenant.find_address(request.path.source);
  const std::uint8_t ports =
      control::ports_of(tenant.addresses, asked != nullptr ? asked->device : 0);
  const auto mad =
      management::answer(std::span<const std::byte, wire::kMadBytes>(request.payload), ports,
                         counters::port_counters_of(tenant, adapter.engine.ports));
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
