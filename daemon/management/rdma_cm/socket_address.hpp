// Addresses as programs name them in commands of rdma_cm.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>

#include "daemon/base/net.hpp"

namespace softhca::management::rdma_cm {

/// An IP address and a port. `family` is the one of the program's sockaddr and only reported back:
/// what is compared is the address, in which IPv4 is ::ffff:a.b.c.d whatever family named it.
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

/// Nothing when the family is neither AF_INET nor AF_INET6. A command holds both families in the
/// space of a sockaddr_in6.
std::optional<SocketAddress> from_sockaddr(const sockaddr_in6& from);
/// All zero when it is not set.
sockaddr_in6 to_sockaddr(const SocketAddress& from);

}  // namespace softhca::management::rdma_cm
