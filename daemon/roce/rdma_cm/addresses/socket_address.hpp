// SPDX-License-Identifier: Apache-2.0

// Addresses in commands of rdma_cm.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>

#include "daemon/base/net.hpp"

namespace softhca::management::rdma_cm {

/// An IP address and a port. `family` is the family of the program's sockaddr and is only reported
/// back. Comparisons use the address, in which IPv4 is ::ffff:a.b.c.d in any family.
struct SocketAddress {
  sa_family_t family = AF_UNSPEC;
  std::uint16_t port = 0;  ///< host byte order
  Gid address;
  std::uint32_t flow_info = 0;  ///< IPv6; network byte order
  std::uint32_t scope = 0;      ///< IPv6: index of an interface

  bool operator==(const SocketAddress&) const = default;
  bool is_set() const { return family != AF_UNSPEC; }
  bool is_any() const { return address.is_zero() || address == Gid::from_ipv4(INADDR_ANY); }
  /// 127.0.0.0/8 or ::1.
  bool is_loopback() const;
};

/// 0.0.0.0 or ::, port 0.
SocketAddress any_address(sa_family_t family);

/// Returns nothing if the family is neither AF_INET nor AF_INET6. A command has room for a
/// sockaddr_in6 for both families.
std::optional<SocketAddress> from_sockaddr(const sockaddr_in6& from);
/// Returns zeros if it is not set.
sockaddr_in6 to_sockaddr(const SocketAddress& from);

}  // namespace softhca::management::rdma_cm
