// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/metrics/collector.hpp"

#include "daemon/operate/metrics/collect.hpp"

namespace softhca::metrics {
std::vector<prometheus::MetricFamily> Collector::collect() const {
  Families out;
  const std::lock_guard lock(source_.tenants_changing);
  for (const auto& tenant : source_.tenants) {
    add_work(out, *tenant);
    add_process_memory(out, *tenant);
    add_commands(out, *tenant);
    add_transport(out, *tenant);
    add_failures(out, *tenant);
    add_congestion(out, *tenant);
    add_receive(out, *tenant);
    add_levels(out, *tenant);
    add_waits(out, *tenant);
    add_objects(out, source_, *tenant);
    add_quotas(out, source_, *tenant);
    add_limits(out, *tenant);
    add_connections(out, *tenant);
    add_doorbells(out, source_, *tenant, nullptr);
    for (const auto& level : tenant->levels) add_doorbells(out, source_, *tenant, level.get());
  }
  add_lanes(out, source_);
  add_pools(out, source_);
  add_connection_limits(out, source_);
  add_general_services(out, source_);
  for (const auto& binding : source_.engine.ports) add_port(out, *binding);
  add_peers(out, source_.engine.authentication);
  add_daemon(out, source_);
  return out.take();
}

}  // namespace softhca::metrics
