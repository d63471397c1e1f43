// Tenants and levels that were removed, and whose programs still run: they keep what they have
// until their programs end or the drain timeout is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/allotments.hpp"
#include "daemon/control/reload/change.hpp"
#include "daemon/control/reload/former_addresses.hpp"
#include "daemon/control/server/server.hpp"
#include "daemon/resource/resource_manager.hpp"

namespace softhca::control {

class Departures {
 public:
  struct OfTenant {
    engine::Tenant* tenant = nullptr;
    std::chrono::steady_clock::time_point since;
    bool end = false;       ///< its programs are not waited for
    bool is_ended = false;  ///< their connections have been closed, and some may still be ending
  };

  Departures(Adapter& adapter, Server& server, Allotments& allotments, FormerAddresses& former)
      : adapter_(adapter), server_(server), allotments_(allotments), former_(former) {}

  /// Tenants and levels that are not in `wanted` begin to leave; those that come back stay.
  void begin(const resource::Config& wanted, const ReloadChange& change);
  /// Closes the connections of those that have not drained in the time they had.
  void end_overdue();
  /// Removes those that have drained.
  void finish_tenants();
  void finish_levels();

  const std::list<OfTenant>& tenants() const { return tenants_; }
  /// The programs of the tenant are not waited for.
  void end(const std::string& tenant);
  /// Connections of a tenant that is leaving; none: there is no such tenant.
  std::optional<std::uint64_t> draining(const std::string& tenant) const;

  /// What `wanted` does not have and programs still use, or will, once it is in force.
  resource::Held held_besides(const resource::Config& wanted) const;

 private:
  struct OfLevel {
    engine::Tenant* tenant = nullptr;
    engine::Level* level = nullptr;
    std::chrono::steady_clock::time_point since;
    bool is_ended = false;
  };
  void begin_tenants(const resource::Config& wanted, const ReloadChange& change);
  void remove(engine::Tenant& tenant);
  void add_held(const engine::Tenant& tenant, const resource::TenantConfig* wanted,
                resource::Held& held) const;

  Adapter& adapter_;
  Server& server_;
  Allotments& allotments_;
  FormerAddresses& former_;
  std::list<OfTenant> tenants_;
  std::list<OfLevel> levels_;
};

/// REQUIRES: there is a tenant of that name.
engine::Tenant& tenant_of(const Adapter& adapter, const std::string& name);

}  // namespace softhca::control
