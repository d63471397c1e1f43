// SPDX-License-Identifier: Apache-2.0

// Requests about tenants and levels that run already, or leave.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/records/tenant.hpp"
#include "daemon/engine/requests/tenant_allocations.hpp"
#include "daemon/qos/pools/automatic_adjustment.hpp"

namespace softhca::engine {

/// Takes back all resources of a tenant without sessions, and removes it from the engine. Returns
/// false if some of the resources are still in use.
struct RemoveTenant {
  TenantAllocations& allocations;
  Tenant& tenant;
  bool run(Engine& engine) const;
};

/// Takes back all resources of a level without sessions, and removes the level from its tenant.
/// Returns null if some of the resources are still in use.
struct RemoveLevel {
  TenantAllocations& allocations;
  Tenant& tenant;
  Level& level;
  std::unique_ptr<Level> run(Engine& engine) const;
};

/// Takes back what programs without a level had. REQUIRES: the tenant has levels, and no sessions
/// outside of them.
struct ReleaseWhole {
  TenantAllocations& allocations;
  Tenant& tenant;
  void run(Engine& engine) const;
};

/// Takes back TVLs that were removed from tenants and are no longer in use.
struct CollectClosedTvls {
  TenantAllocations& allocations;
  void run(Engine& engine) const;
};

struct RenameLevel {
  Level& level;
  std::string name;
  void run(Engine& engine);
};

/// Notes which tenants have begun to leave (true), or stay after all. While a tenant leaves,
/// another tenant with the same address takes precedence.
struct LetYield {
  std::vector<std::pair<Tenant*, bool>> tenants;
  void run(Engine& engine) const;
};

/// The addresses of a tenant, and those that it has lost and sessions may still use.
struct TenantAddresses {
  Tenant* tenant = nullptr;
  std::vector<Tenant::Address> addresses, former;
};

/// Sets the addresses of a tenant. `gone`: its port answers for it no longer.
struct SetAddresses {
  TenantAddresses to;
  std::optional<Tenant::Address> gone;
  void run(Engine& engine);
};

/// Lends what tenants are guaranteed and do not use, and recalls it (A10).
struct AdjustLending {
  std::vector<std::pair<Tenant*, bool>> lends;  ///< the tenants, and whether they lend
  AdjustmentPolicy policy;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
