// IP addresses as the operator writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/net.hpp"

namespace softhca::resource {

/// An address of a port with the length of its subnet prefix: 0..32 for IPv4, 0..128 for IPv6.
struct InterfaceAddress {
  Gid gid;
  std::uint8_t prefix = 0;

  bool operator==(const InterfaceAddress&) const = default;
};

/// Where a server of the daemon's own listens.
struct ListenAddress {
  Gid gid;
  std::uint16_t port = 0;
};

/// "10.0.0.1" or "fe80::1"; nothing if it is neither.
std::optional<Gid> parse_address(std::string_view text);
/// "10.0.0.1/24" or "fe80::1/64"; without a prefix length, a host of its own (/32, /128).
std::optional<InterfaceAddress> parse_interface_address(std::string_view text);
/// "127.0.0.1:9465" or "[::1]:9465"; nothing for link-local IPv6, which needs an interface besides.
std::optional<ListenAddress> parse_listen_address(std::string_view text);
/// Can a host have it: not unspecified, not multicast, not broadcast.
bool is_host_address(const Gid& gid);
std::string to_string(const Gid& gid);

}  // namespace softhca::resource
