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

/// A neighbour whose link address is given, not asked for.
struct StaticNeighbour {
  Gid gid;
  MacAddress mac;
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
/// "10.0.0.2=02:00:00:00:00:02": the address of a host and its link address, of one port.
std::optional<StaticNeighbour> parse_static_neighbour(std::string_view text);
std::string to_string(const Gid& gid);

}  // namespace softhca::resource
