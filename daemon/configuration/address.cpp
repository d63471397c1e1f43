// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "daemon/base/address_text.hpp"

namespace softhca::configuration {
namespace {

/// Parses "02:00:00:00:00:02". Nothing: not the address of a single station (a group address, or
/// zero).
std::optional<MacAddress> parse_link_address(std::string_view text) {
  MacAddress mac;
  if (text.size() != 3 * mac.bytes.size() - 1) return std::nullopt;
  for (std::size_t i = 0; i < mac.bytes.size(); ++i) {
    const char* const digits = text.data() + 3 * i;
    if (std::from_chars(digits, digits + 2, mac.bytes[i], 16).ptr != digits + 2 ||
        (i != 0 && digits[-1] != ':'))
      return std::nullopt;
  }
  if (mac.is_zero() || (mac.bytes[0] & 1) != 0) return std::nullopt;
  return mac;
}

}  // namespace

std::optional<Gid> parse_address(std::string_view text) {
  const std::string terminated(text);  // inet_pton reads up to a zero byte
  if (terminated.find('\0') != std::string::npos) return std::nullopt;
  if (in_addr v4{}; inet_pton(AF_INET, terminated.c_str(), &v4) == 1)
    return Gid::from_ipv4(ntohl(v4.s_addr));
  Gid gid;
  if (inet_pton(AF_INET6, terminated.c_str(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

std::vector<Gid> parse_addresses(std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_address(text.substr(0, dash));
  const auto last = dash == text.size() ? first : parse_address(text.substr(dash + 1));
  if (!first || !last || first->is_ipv4() != last->is_ipv4() || *last < *first) return {};
  std::vector<Gid> addresses;
  for (Gid next = *first; addresses.size() < kMostOfRange && next.is_unicast();) {
    addresses.push_back(next);
    if (next == *last) return addresses;
    for (auto byte = next.bytes.rbegin(); ++*byte == 0;) ++byte;
  }
  return {};
}

std::optional<InterfaceAddress> parse_interface_address(std::string_view text) {
  const auto slash = text.find('/');
  const auto gid = parse_address(text.substr(0, slash));
  if (!gid) return std::nullopt;
  const std::uint8_t longest = gid->is_ipv4() ? 32 : 128;
  InterfaceAddress address{*gid, longest};
  if (slash == std::string_view::npos) return address;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address.prefix);
  if (error != std::errc() || end != digits.data() + digits.size() || address.prefix > longest)
    return std::nullopt;
  return address;
}

std::vector<InterfaceAddress> parse_interface_addresses(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::vector<Gid> gids = parse_addresses(text.substr(0, slash));
  if (gids.empty()) return {};
  const auto first = parse_interface_address(to_string(gids.front()).append(text.substr(slash)));
  if (!first) return {};
  std::vector<InterfaceAddress> addresses;
  for (const Gid& gid : gids) addresses.push_back({gid, first->prefix});
  return addresses;
}

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto gid = parse_address(host);
  if (!gid || gid->is_ipv4() == bracketed || gid->is_link_local()) return std::nullopt;
  ListenAddress address{*gid, 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port == 0)
    return std::nullopt;
  return address;
}

std::optional<StaticNeighbour> parse_static_neighbour(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto gid = parse_address(text.substr(0, equals));
  const auto mac = parse_link_address(text.substr(equals + 1));
  if (!gid || !gid->is_unicast() || !mac) return std::nullopt;
  return StaticNeighbour{*gid, *mac};
}

std::string to_string(const Gid& gid) { return address_text(gid); }

}  // namespace softhca::configuration
