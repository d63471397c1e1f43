// SPDX-License-Identifier: Apache-2.0

// Tenants that are created on demand, from templates of the configuration. These functions change
// nothing. They look up only users and groups of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/configuration/resource_manager/resource_manager.hpp"

namespace softhca::configuration {

/// The properties of a tenant, besides those of its template.
struct TenantRequest {
  std::string name;
  std::string template_name;
  /// One for each device, if the template has several. Empty: the first free ones of the template.
  std::vector<Gid> addresses;
  // These override the template's values for its socket.
  std::optional<std::string> owner, group;
  std::optional<std::uint32_t> mode;
  // These override the template's values, with what follows from them.
  std::optional<Share> share;
  std::optional<Workload> workload;
  std::optional<std::uint64_t> guest_memory;
};

/// A tenant that was created on demand.
struct TenantOnDemand {
  TenantRequest request;  ///< including its addresses
  bool saved = false;     ///< it exists after a restart
};

/// Returns `in_force` with the tenant added at the end. `taken`: addresses that are not free
/// although no tenant of `in_force` has them. Refusals, besides lack of room: the name is taken or
/// invalid, the template does not exist, an address is taken or unavailable, or the user or group
/// does not exist.
AllocationResult with_tenant(const Config& in_force, const TenantRequest& request,
                             std::span<const Gid> taken = {}, const Held& held = {});

}  // namespace softhca::configuration
