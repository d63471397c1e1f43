// SPDX-License-Identifier: Apache-2.0

// IP addresses and ports as system calls take them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "daemon/base/net.hpp"

namespace softhca {

struct KernelAddress {
  alignas(sockaddr_in6) std::array<std::byte, sizeof(sockaddr_in6)> bytes{};
  socklen_t length = 0;  ///< of sockaddr_in or sockaddr_in6

  sockaddr* get() { return reinterpret_cast<sockaddr*>(bytes.data()); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(bytes.data()); }
};

inline int family_of(const Gid& address) { return address.is_ipv4() ? AF_INET : AF_INET6; }

/// Returns the address for a system call. `interface_index` counts for link-local addresses, which
/// mean something on one interface only.
inline KernelAddress kernel_address(const Gid& address, std::uint16_t port,
                                    unsigned interface_index = 0) {
  KernelAddress out;
  if (address.is_ipv4()) {
    auto* to = new (out.bytes.data()) sockaddr_in{};
    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    to->sin_addr.s_addr = htonl(address.ipv4());
    out.length = sizeof *to;
  } else {
    auto* to = new (out.bytes.data()) sockaddr_in6{};
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    std::memcpy(&to->sin6_addr, address.bytes.data(), address.bytes.size());
    if (address.is_link_local()) to->sin6_scope_id = interface_index;
    out.length = sizeof *to;
  }
  return out;
}

/// Returns the GID of a socket address. REQUIRES: an address of IPv4 or IPv6.
inline Gid gid_of(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return Gid::from_ipv4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  Gid g;
  std::memcpy(g.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
              g.bytes.size());
  return g;
}

inline std::uint16_t port_of(const sockaddr& address) {
  return ntohs(address.sa_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

}  // namespace softhca
