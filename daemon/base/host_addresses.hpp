// SPDX-License-Identifier: Apache-2.0

// The IP addresses that the kernel has.
#pragma once

#include <ifaddrs.h>
#include <net/if.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/kernel_address.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca {

struct HostAddress {
  std::string interface;
  Gid address;
  std::uint8_t prefix_length = 0;  ///< of its own family: 0..32 or 0..128
  bool loopback = false;           ///< the interface is the loopback interface

  AddressPrefix network() const { return {address, prefix_length}; }
};

/// Returns the IPv4 and IPv6 addresses of all interfaces of this network namespace, link-local ones
/// too.
inline Expected<std::vector<HostAddress>> host_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("cannot list addresses");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<HostAddress> all;
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_netmask == nullptr) continue;
    if (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6) continue;
    const Gid mask = gid_of(*a->ifa_netmask);
    int bits = a->ifa_addr->sa_family == AF_INET ? std::popcount(mask.ipv4()) : 0;
    if (a->ifa_addr->sa_family == AF_INET6)
      for (const std::uint8_t byte : mask.bytes) bits += std::popcount(byte);
    const std::string name = a->ifa_name;
    all.push_back({.interface = name.substr(0, name.find(':')),  // without the address's label
                   .address = gid_of(*a->ifa_addr),
                   .prefix_length = static_cast<std::uint8_t>(bits),
                   .loopback = (a->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

}  // namespace softhca
