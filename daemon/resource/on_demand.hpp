// Tenants that are made on demand, from templates of the configuration. Nothing is changed; of the
// machine only users and groups are looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/resource/resource_manager.hpp"

namespace softhca::resource {

/// What a tenant is made of, besides its template.
struct TenantRequest {
  std::string name;
  std::string template_name;
  std::vector<Gid> addresses;  ///< empty: the first of the template's that is free
  // Instead of what the template says of its socket.
  std::optional<std::string> owner, group;
  std::optional<std::uint32_t> mode;
};

/// A tenant that was made on demand.
struct TenantOnDemand {
  TenantRequest request;  ///< with its addresses
  bool saved = false;     ///< it is there after a restart
};

/// `in_force` with the tenant, its last. `taken`: addresses that are not free although no tenant of
/// `in_force` has them. Refused, besides for want of room: the name is taken or invalid, there is
/// no such template, an address is another's or not to be had, there is no such user or group.
AllocationResult with_tenant(const Config& in_force, const TenantRequest& request,
                             std::span<const Gid> taken = {}, const Held& held = {});

}  // namespace softhca::resource
