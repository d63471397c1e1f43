// SPDX-License-Identifier: Apache-2.0

// The parts of a scrape; collector.cpp puts them together. docs/metrics.md has a row for each
// metric; a system test checks this.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/operate/metrics/exporter.hpp"
#include "daemon/operate/metrics/families.hpp"

namespace softhca::metrics {

// --- collect_tenant.cpp: the work of a tenant
void add_work(Families& out, const engine::Tenant& tenant);
void add_process_memory(Families& out, const engine::Tenant& tenant);
void add_commands(Families& out, const engine::Tenant& tenant);
void add_transport(Families& out, const engine::Tenant& tenant);
void add_failures(Families& out, const engine::Tenant& tenant);
void add_congestion(Families& out, const engine::Tenant& tenant);
void add_receive(Families& out, const engine::Tenant& tenant);
void add_waits(Families& out, const engine::Tenant& tenant);
void add_levels(Families& out, const engine::Tenant& tenant);

// --- collect_pools.cpp: pools, and their use by tenants
void add_pools(Families& out, const Source& source);
void add_objects(Families& out, const Source& source, const engine::Tenant& tenant);
void add_quotas(Families& out, const Source& source, const engine::Tenant& tenant);
void add_limits(Families& out, const engine::Tenant& tenant);
void add_lanes(Families& out, const Source& source);
/// Adds the doorbells of the tenant or, if `level` is not null, of one of its levels.
void add_doorbells(Families& out, const Source& source, const engine::Tenant& tenant,
                   const engine::Level* level);

// --- collect_connections.cpp
void add_connections(Families& out, const engine::Tenant& tenant);
/// Adds the limits of connections of all tenants, and how many connections their guarantees carry.
void add_connection_limits(Families& out, const Source& source);
void add_general_services(Families& out, const Source& source);

// --- collect_daemon.cpp
void add_daemon(Families& out, const Source& source);

// --- collect_port.cpp
void add_port(Families& out, const engine::PortBinding& binding);
void add_peers(Families& out, const engine::PeerAuthentication& authentication);

/// Returns the labels of a tenant and a level. If `level` is null, the label "level" is "": the
/// value is shared by the tenant's levels, or it is not divided into levels.
inline Labels labels_of(const engine::Tenant& tenant, const engine::Level* level) {
  return {{"tenant", tenant.name}, {"level", level == nullptr ? "" : level->name}};
}
inline Labels with(Labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}
inline double number(const Counter& counter) { return static_cast<double>(counter.value()); }

}  // namespace softhca::metrics
