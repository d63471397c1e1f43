// SPDX-License-Identifier: Apache-2.0

// The layers on top of the configuration file: changes that the operator has saved, and the
// sub-allocations of tenants. The functions are pure: the result is the configuration to put into
// effect.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/configuration/resource_manager/on_demand.hpp"
#include "daemon/configuration/resource_manager/sub_allocation.hpp"

namespace softhca::configuration {

/// A saved request. All of its changes are made, or none.
struct SavedRequest {
  std::uint64_t number = 0;
  std::vector<AllocationChange> changes;
};

/// The sub-allocations by tenant.
using SubAllocations = std::map<std::string, std::shared_ptr<const SubAllocation>, std::less<>>;

/// Removes the changes that `later` repeats, and requests that have no changes left.
void supersede(std::vector<SavedRequest>& saved, const std::vector<AllocationChange>& later);

struct Overlaid {
  Config given;     ///< the file with tenants created on demand and saved changes
  Config in_force;  ///< `given` with the tenants' own changes
  /// Numbers of the saved requests that do not fit, with the reasons.
  std::map<std::uint64_t, AllocationRefusal> left_out;
  /// Tenants on demand that cannot be created, with the reasons.
  std::map<std::string, AllocationRefusal> absent;
  /// Tenants that cannot keep their sub-allocation, with the reasons.
  std::map<std::string, AllocationRefusal> undivided;
  /// Those of these tenants that keep their own levels and rules, without amounts.
  SubAllocations without_amounts;
};

/// Applies the layers: first tenants on demand, then saved requests, each in their order. A tenant
/// or request that does not fit is tried again after the others, since they may free what it needs.
/// If that fails, all requests are tried at once. What still does not fit is left out. So is a
/// tenant if its template is missing, or if the file has its name or address. Then each tenant gets
/// its sub-allocation, else its own levels without amounts, else none.
Overlaid lay_over(const Config& file, const std::vector<TenantOnDemand>& tenants,
                  const std::vector<SavedRequest>& saved, const SubAllocations& own,
                  const Held& held = {});

/// Makes changes of the operator in `laid.given` and `laid.in_force`, and returns the latter. If
/// they change amounts that follow, the tenant gets what the operator has given, and then its
/// sub-allocation again; `undivided` and `without_amounts` say what no longer fits. If the changes
/// do not fit in `given`, the tenant is given what is in force. After a refusal `laid` is as
/// before.
AllocationResult lay_changes(Overlaid& laid, std::span<const AllocationChange> changes,
                             const SubAllocations& own, const Held& held = {});

}  // namespace softhca::configuration
