// SPDX-License-Identifier: Apache-2.0

// Address resolution: ARP for IPv4 (RFC 826), neighbour solicitation and advertisement for IPv6
// (RFC 4861), and the link addresses of multicast groups.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/net.hpp"

namespace softhca::wire {

inline constexpr MacAddress kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
/// ff02::1
inline constexpr Gid kAllNodes{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/// Returns the link address of a multicast group (RFC 1112 6.4, RFC 2464 7). REQUIRES:
/// group.is_multicast().
MacAddress multicast_mac(const Gid& group);

/// Returns the group in which a node listens for solicitations of `address` (RFC 4291 2.7.1).
/// REQUIRES: an IPv6 address.
Gid solicited_node_group(const Gid& address);

/// Large enough for each frame built here.
inline constexpr std::size_t kMaxResolutionFrame = 96;
using ResolutionBuffer = std::span<std::byte, kMaxResolutionFrame>;

/// The station that sends a request or an answer.
struct Station {
  MacAddress mac;
  std::optional<std::uint16_t> vlan;
  Gid address;
};

struct ArpMessage {
  enum class Operation : std::uint8_t { kArpRequest = 1, kArpReply = 2 };
  Operation operation = Operation::kArpRequest;
  std::optional<std::uint16_t> vlan;
  MacAddress sender_mac;
  MacAddress target_mac;  ///< undefined in a request
  Gid sender;             ///< zero address (::ffff:0.0.0.0) in a probe
  Gid target;
};

/// Parses an ARP message. Nothing: the frame is not a well-formed ARP message for IPv4 on Ethernet.
std::optional<ArpMessage> parse_arp(std::span<const std::byte> frame);
/// Builds a broadcast request for the link address of `target`. Returns the length of the frame.
/// REQUIRES: IPv4 addresses.
std::size_t build_arp_request(const Station& self, const Gid& target, ResolutionBuffer out);
/// Builds the answer to `request`: `self` has the requested address.
std::size_t build_arp_reply(const Station& self, const ArpMessage& request, ResolutionBuffer out);

struct NeighbourMessage {
  bool is_advertisement = false;
  bool solicited = false;  ///< advertisement only
  bool overrides = false;  ///< advertisement only: replaces the known link address
  std::optional<std::uint16_t> vlan;
  MacAddress source_mac;  ///< of the Ethernet frame
  Gid source;             ///< zero if the sender only checks its own address
  Gid destination;
  Gid target;                      ///< the requested or announced address
  std::optional<MacAddress> link;  ///< of the sender (solicitation) or of the target
};

/// Parses a solicitation or an advertisement. Nothing: the frame is neither, or breaks a rule of
/// RFC 4861 7.1 (hop limit 255, checksum, lengths, addresses).
std::optional<NeighbourMessage> parse_neighbour(std::span<const std::byte> frame);
/// Builds a request for the link address of `target`, sent to its solicited-node group. Returns the
/// length of the frame. REQUIRES: IPv6 addresses.
std::size_t build_solicitation(const Station& self, const Gid& target, ResolutionBuffer out);
/// Builds the answer to `solicitation`: `self` has the requested address. It goes to all nodes if
/// the sender has no address yet.
std::size_t build_advertisement(const Station& self, const NeighbourMessage& solicitation,
                                ResolutionBuffer out);

}  // namespace softhca::wire
