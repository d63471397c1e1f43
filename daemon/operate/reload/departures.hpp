// SPDX-License-Identifier: Apache-2.0

// Removed tenants and levels with running programs. They keep their resources until the programs
// end or the drain timeout is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/operate/reload/change.hpp"
#include "daemon/operate/reload/former_addresses.hpp"

namespace softhca::control {

class Server;

class Departures {
 public:
  struct OfTenant {
    engine::Tenant* tenant = nullptr;
    std::chrono::steady_clock::time_point since;
    bool end = false;       ///< the daemon does not wait for its programs
    bool is_ended = false;  ///< its programs' connections were closed; some may still be ending
  };

  struct OfLevel {
    engine::Tenant* tenant = nullptr;
    engine::Level* level = nullptr;
    configuration::LevelConfig settings;  ///< the last ones
    std::chrono::steady_clock::time_point since;
    bool is_ended = false;
  };

  Departures(Adapter& adapter, Server& server, FormerAddresses& former)
      : adapter_(adapter), server_(server), former_(former) {}

  /// Starts the departure of tenants and levels that are not in `wanted`. Those that come back
  /// stay.
  void begin(const configuration::Config& wanted, const ReloadChange& change);
  /// Closes the connections of tenants and levels that have exceeded their time to drain.
  void end_overdue();
  /// Remove the tenants and levels that have drained.
  void finish_tenants();
  void finish_levels();

  const std::list<OfTenant>& tenants() const { return tenants_; }
  const std::list<OfLevel>& levels() const { return levels_; }
  /// Stops waiting for the programs of a tenant.
  void end(const std::string& tenant);
  /// Returns the connections of a leaving tenant. Nothing: the tenant is not leaving.
  std::optional<std::uint64_t> draining(const std::string& tenant) const;

  /// Returns the resources that programs will still use beyond those of `wanted`, once it is in
  /// force.
  configuration::Held held_besides(const configuration::Config& wanted) const;

 private:
  void begin_tenants(const configuration::Config& wanted, const ReloadChange& change);
  void remove(engine::Tenant& tenant);
  void add_held(const engine::Tenant& tenant, const configuration::TenantConfig* wanted,
                configuration::Held& held) const;

  Adapter& adapter_;
  Server& server_;
  FormerAddresses& former_;
  std::list<OfTenant> tenants_;
  std::list<OfLevel> levels_;
};

/// Returns the tenant with this name. REQUIRES: it exists.
engine::Tenant& tenant_of(const Adapter& adapter, const std::string& name);

}  // namespace softhca::control
