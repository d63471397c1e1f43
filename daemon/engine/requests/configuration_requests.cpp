// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/configuration_requests.hpp"

#include <cstddef>
#include <utility>

#include "daemon/engine/engine.hpp"
#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::engine {

void AddPort::run(Engine& engine) { engine.packets().add_port(std::move(binding)); }

void FailOver::run(Engine& engine) const {
  PortBinding& binding = *engine.packets().ports()[port.value];
  if (binding.outbox) binding.outbox->flush();
  binding.port->flush();
  binding.port->fail_over();
  binding.neighbours->move_to(binding.port->mac());
  engine.packets().rebuild_frames();
}

void ServePort::run(Engine& engine) const {
  PortBinding& binding = *engine.packets().ports()[port.value];
  if (binding.outbox) binding.outbox->flush();
  binding.port->flush();
  binding.service.store(service, std::memory_order_relaxed);
  if (service == PortService::kOn) binding.neighbours->announce();
}

Outcome PutInForce::run(Engine& engine) {
  if (auto done = allocations.change(change); !done) return done;
  for (TenantAddresses& each : addresses)
    engine.addresses().set(*each.tenant, std::move(each.addresses), std::move(each.former));
  for (auto& [srq, provisioner] : provisioners)
    engine.receive_queues().start_provisioning(*srq, std::move(provisioner));
  set_policies(engine);
  change_ports(engine);
  if (peers) engine.packets().exchange_peers(*peers);
  engine.set_doorbells(wanted.doorbells);
  engine.set_congestion(wanted.congestion, wanted.reliability.flight);
  engine.queue_pairs().set_reliability(wanted.reliability);
  return {};
}

void PutInForce::set_policies(Engine& engine) const {
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows) {
      engine.receive_queues().set_policy(*tenant, to->srq, to->srq_rules);
      tenant->marking = marking_of(*to);
      tenant->kept.set_watermark(kept_watermark(to->kept_packets, wanted.reliability));
      for (const auto& level : tenant->levels) {
        const configuration::LevelConfig* const entry = settings_of(*to, *level);
        if (entry != nullptr) level->marking = marking_of(*entry);
        set_rules(*level, entry);
      }
    }
}

void PutInForce::change_ports(Engine& engine) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    PortChange& to = ports[i];
    neighbour::Neighbours& neighbours = *engine.ports()[i]->neighbours;
    for (const neighbour::LocalAddress& address : to.added) neighbours.add_address(address);
    neighbours.set_gateway(to.gateway4, to.gateway6);
    neighbours.set_static(std::move(to.neighbours));
    if (to.announce) neighbours.announce();
    for (const Gid& address : to.removed) neighbours.remove_address(address);
  }
}

}  // namespace softhca::engine
