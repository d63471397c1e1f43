// SPDX-License-Identifier: Apache-2.0

// The GID table of a tenant's device: the tenant's addresses in their order, and at least four
// entries. An entry beyond the addresses repeats the first IPv4 address, or the first address if
// none is IPv4. Scripts name indices that adapters usually have (-g 1, -x 3, NCCL_IB_GID_INDEX=3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/engine/records/tenant.hpp"

namespace softhca::control {

using GidEntries = std::vector<engine::Tenant::Address>;

inline std::size_t gid_entries(const GidEntries& addresses) {
  constexpr std::size_t kLeast = 4;
  return addresses.empty() ? 0 : std::max(addresses.size(), kLeast);
}

/// Returns the address of an entry. REQUIRES: index < gid_entries(addresses).
inline const engine::Tenant::Address& gid_entry(const GidEntries& addresses, std::size_t index) {
  if (index < addresses.size()) return addresses[index];
  const auto ipv4 = std::ranges::find_if(
      addresses, [](const engine::Tenant::Address& address) { return address.gid.is_ipv4(); });
  return ipv4 != addresses.end() ? *ipv4 : addresses.front();
}

}  // namespace softhca::control
