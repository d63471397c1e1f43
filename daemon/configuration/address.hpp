// SPDX-License-Identifier: Apache-2.0

// IP addresses as the operator writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/net.hpp"

namespace softhca::configuration {

/// An address of a port with the length of its subnet prefix: 0..32 for IPv4, 0..128 for IPv6.
struct InterfaceAddress {
  Gid gid;
  std::uint8_t prefix = 0;

  bool operator==(const InterfaceAddress&) const = default;
};

/// A neighbour with a configured link address, which the daemon does not request.
struct StaticNeighbour {
  Gid gid;
  MacAddress mac;
};

/// The address on which a server of the daemon listens.
struct ListenAddress {
  Gid gid;
  std::uint16_t port = 0;
};

/// Parses "10.0.0.1" or "fe80::1". Nothing: it is neither.
std::optional<Gid> parse_address(std::string_view text);
inline constexpr std::size_t kMostOfRange = 256;  ///< addresses
/// Parses "10.0.0.1", or "10.0.0.1-10.0.0.9": all host addresses from the first to the last. Empty:
/// it is neither, or more than kMostOfRange.
std::vector<Gid> parse_addresses(std::string_view text);
/// Parses "10.0.0.1/24" or "fe80::1/64". Without a prefix length it is a single host (/32, /128).
std::optional<InterfaceAddress> parse_interface_address(std::string_view text);
/// Parses a range as parse_addresses(), with a prefix length: "10.0.0.1-10.0.0.9/24". Empty: it is
/// none of these.
std::vector<InterfaceAddress> parse_interface_addresses(std::string_view text);
/// Parses "127.0.0.1:9465" or "[::1]:9465". Nothing also for link-local IPv6, which needs an
/// interface besides.
std::optional<ListenAddress> parse_listen_address(std::string_view text);
/// Parses "10.0.0.2=02:00:00:00:00:02": the IP address and the link address of one host.
std::optional<StaticNeighbour> parse_static_neighbour(std::string_view text);
std::string to_string(const Gid& gid);

}  // namespace softhca::configuration
