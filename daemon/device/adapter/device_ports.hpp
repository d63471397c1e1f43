// SPDX-License-Identifier: Apache-2.0

// The ports of a tenant's device, and their GID tables. A device has a port for each network on
// which it has addresses (a port of the daemon), in the order of its addresses; one without
// networks has one port. Addresses without a network are on port 1.
//
// A table has the port's addresses in their order, and at least four entries. An entry beyond the
// addresses repeats the first IPv4 address, or the first address if none is IPv4. Scripts name
// indices that adapters usually have (-g 1, -x 3, NCCL_IB_GID_INDEX=3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/records/tenant.hpp"

namespace softhca::control {

using GidEntries = std::vector<engine::Tenant::Address>;

/// A device of a tenant or, with `port`, one of its ports. Without both: all devices.
struct DevicePart {
  std::optional<std::uint8_t> device{};
  std::optional<std::uint8_t> port{};  ///< as programs number it, from 1

  bool has(const engine::Tenant::Address& address) const {
    return address.device == device.value_or(address.device) &&
           address.device_port == port.value_or(address.device_port);
  }
};

/// Returns the number of ports of a device, at least 1. `addresses`: those of all devices of the
/// tenant.
inline std::uint8_t ports_of(const GidEntries& addresses, std::uint8_t device) {
  std::uint8_t most = 1;
  for (const engine::Tenant::Address& address : addresses)
    if (address.device == device) most = std::max(most, address.device_port);
  return most;
}

/// Sets Address::device_port of every address. A network beyond the 255th of a device is on port 1.
inline void number_ports(GidEntries& addresses) {
  std::map<std::uint8_t, std::vector<PortId>> networks;  // by device
  for (engine::Tenant::Address& address : addresses) {
    if (!address.port) continue;
    std::vector<PortId>& known = networks[address.device];
    auto found = std::ranges::find(known, *address.port);
    if (found == known.end()) found = known.insert(found, *address.port);
    const auto number = found - known.begin() + 1;
    address.device_port = number <= 255 ? static_cast<std::uint8_t>(number) : 1;
  }
}

/// Returns the table of a port. `addresses`: those of all devices of the tenant. Empty: the port
/// has no address.
inline GidEntries gid_table(const GidEntries& addresses, std::uint8_t device, std::uint8_t port) {
  constexpr std::size_t kLeast = 4;
  GidEntries table;
  std::ranges::copy_if(addresses, std::back_inserter(table),
                       [&](const engine::Tenant::Address& address) {
                         return DevicePart{device, port}.has(address);
                       });
  if (table.empty() || table.size() >= kLeast) return table;
  const auto ipv4 = std::ranges::find_if(
      table, [](const engine::Tenant::Address& address) { return address.gid.is_ipv4(); });
  const engine::Tenant::Address repeated = ipv4 != table.end() ? *ipv4 : table.front();
  table.resize(kLeast, repeated);
  return table;
}

}  // namespace softhca::control
