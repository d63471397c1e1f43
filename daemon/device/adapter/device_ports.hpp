// SPDX-License-Identifier: Apache-2.0

// The ports of a tenant's device, and their GID tables. A device has a port for each network on
// which it has addresses, in the order of its addresses; one without networks has one port.
// Addresses without a network are on port 1. Each port of the daemon has a network of its own, but
// UDP sockets of one interface of the kernel, which have an address each, have one together.
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
#include <string>
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

/// Sets Address::device_port of every address. `network_of`(PortId) returns the name of a network;
/// it is called for devices with several ports of the daemon only. A network beyond the 254th of a
/// device is on port 1.
template <class NetworkOf>
void number_ports(GidEntries& addresses, NetworkOf&& network_of) {
  struct Device {
    std::map<PortId, std::uint8_t> numbers;
    std::map<std::string, std::uint8_t> networks;
  };
  std::map<std::uint8_t, Device> devices;
  std::map<std::uint8_t, PortId> firsts;
  for (engine::Tenant::Address& address : addresses) {
    if (!address.port) continue;
    const PortId first = firsts.emplace(address.device, *address.port).first->second;
    if (first == *address.port) continue;  // port 1
    Device& device = devices[address.device];
    if (device.networks.empty()) device.networks[network_of(first)] = 1;
    const auto [number, is_new] = device.numbers.emplace(*address.port, 1);
    if (is_new) {
      const std::size_t next = device.networks.size() + 1;
      number->second =
          device.networks
              .emplace(network_of(*address.port), next <= 254 ? static_cast<std::uint8_t>(next) : 1)
              .first->second;
    }
    address.device_port = number->second;
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
