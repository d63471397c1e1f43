// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/tenant_paths.hpp"

#include "daemon/base/address_text.hpp"
#include "daemon/engine/addresses/local_addresses.hpp"

namespace softhca::control {
namespace {

bool same_family(const Gid& a, const Gid& b) { return a.is_ipv4() == b.is_ipv4(); }

bool is_within(const Gid& address, const configuration::InterfaceAddress& network) {
  const unsigned skipped = network.gid.is_ipv4() ? 96 : 0;
  for (unsigned bit = 0; bit < skipped + network.prefix; ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80 >> bit % 8);
    if ((address.bytes[bit / 8] & mask) != (network.gid.bytes[bit / 8] & mask)) return false;
  }
  return true;
}

}  // namespace

std::optional<Gid> source_for(const Adapter& adapter, const engine::Tenant& tenant,
                              const Gid& destination) {
  const bool inside = adapter.engine.addresses.is_local(destination);
  std::optional<Gid> by_gateway;
  for (const auto& address : tenant.addresses) {
    if (!same_family(address.gid, destination)) continue;
    if (inside) return address.gid;
    if (!address.port) continue;
    const configuration::PortConfig& port = adapter.config.ports[address.port->value];
    for (const configuration::InterfaceAddress& network : port.addresses)
      if (network.gid == address.gid && is_within(destination, network)) return address.gid;
    const bool routed = (destination.is_ipv4() ? port.gateway4 : port.gateway6).has_value();
    if ((routed || destination.is_multicast()) && !by_gateway) by_gateway = address.gid;
  }
  if (by_gateway || !destination.is_multicast()) return by_gateway;
  for (const auto& address : tenant.addresses)  // a multicast group inside this daemon
    if (same_family(address.gid, destination)) return address.gid;
  return std::nullopt;
}

std::string networks(const Adapter& adapter, const engine::Tenant& tenant, bool ipv4) {
  AddressList list;
  for (const auto& address : tenant.addresses) {
    if (address.gid.is_ipv4() != ipv4) continue;
    if (!address.port) {
      list.add(address.gid, " (inside this daemon only)");
      continue;
    }
    for (const auto& network : adapter.config.ports[address.port->value].addresses)
      if (network.gid == address.gid) list.add(address.gid, "/" + std::to_string(network.prefix));
  }
  return list.text();
}

engine::AddressPath path_between(const Adapter& adapter, const engine::Tenant& tenant,
                                 const Gid& local, const Gid& remote) {
  engine::AddressPath path{.source = local, .destination = remote};
  if (adapter.engine.addresses.is_local(remote)) return path;
  for (const auto* list : {&tenant.addresses, &tenant.former_addresses})
    for (const auto& address : *list)
      if (address.gid == local) path.port = address.port;
  return path;
}

}  // namespace softhca::control
