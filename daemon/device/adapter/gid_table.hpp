// SPDX-License-Identifier: Apache-2.0

// The GID table of a tenant's device: the device's addresses in their order, and at least four
// entries. An entry beyond the addresses repeats the first IPv4 address, or the first address if
// none is IPv4. Scripts name indices that adapters usually have (-g 1, -x 3, NCCL_IB_GID_INDEX=3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "daemon/engine/records/tenant.hpp"

namespace softhca::control {

using GidEntries = std::vector<engine::Tenant::Address>;

/// Returns the table of a device. `addresses`: those of all devices of the tenant. Empty: the
/// device has no address.
inline GidEntries gid_table(const GidEntries& addresses, std::uint8_t device) {
  constexpr std::size_t kLeast = 4;
  GidEntries table;
  std::ranges::copy_if(
      addresses, std::back_inserter(table),
      [&](const engine::Tenant::Address& address) { return address.device == device; });
  if (table.empty() || table.size() >= kLeast) return table;
  const auto ipv4 = std::ranges::find_if(
      table, [](const engine::Tenant::Address& address) { return address.gid.is_ipv4(); });
  const engine::Tenant::Address repeated = ipv4 != table.end() ? *ipv4 : table.front();
  table.resize(kLeast, repeated);
  return table;
}

}  // namespace softhca::control
