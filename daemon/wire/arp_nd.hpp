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

/// The link address of a multicast group (RFC 1112 6.4, RFC 2464 7).
/// REQUIRES: group.is_multicast().
MacAddress multicast_mac(const Gid& group);

/// The group in which a node listens for solicitations of `address` (RFC 4291 2.7.1).
/// REQUIRES: an IPv6 address.
Gid solicited_node_group(const Gid& address);

/// Room that any frame built here fits in.
inline constexpr std::size_t kMaxResolutionFrame = 96;
using ResolutionBuffer = std::span<std::byte, kMaxResolutionFrame>;

/// The station on whose behalf a request or answer is sent.
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
  MacAddress target_mac;  ///< means nothing in a request
  Gid sender;             ///< zero address (::ffff:0.0.0.0) in a probe
  Gid target;
};

/// Nothing when the frame is no well-formed ARP message for IPv4 on Ethernet.
std::optional<ArpMessage> parse_arp(std::span<const std::byte> frame);
/// "Who has target?", broadcast. Returns the length of the frame.
/// REQUIRES: IPv4 addresses.
std::size_t build_arp_request(const Station& self, const Gid& target, ResolutionBuffer out);
/// Tells the sender of `request` that `self` has the address asked for.
std::size_t build_arp_reply(const Station& self, const ArpMessage& request, ResolutionBuffer out);

struct NeighbourMessage {
  bool is_advertisement = false;
  bool solicited = false;  ///< advertisement only
  bool overrides = false;  ///< advertisement only: replaces what is known
  std::optional<std::uint16_t> vlan;
  MacAddress source_mac;  ///< of the Ethernet frame
  Gid source;             ///< zero when the sender only checks its own address
  Gid destination;
  Gid target;                      ///< the address asked for, or announced
  std::optional<MacAddress> link;  ///< of the sender (solicitation) or of the target
};

/// Nothing when the frame is neither, or breaks a rule of RFC 4861 7.1 (hop limit 255, checksum,
/// lengths, addresses).
std::optional<NeighbourMessage> parse_neighbour(std::span<const std::byte> frame);
/// "Who has target?", to its solicited-node group. Returns the length of the frame.
/// REQUIRES: IPv6 addresses.
std::size_t build_solicitation(const Station& self, const Gid& target, ResolutionBuffer out);
/// Tells the sender of `solicitation` (all nodes, if it has no address yet) that `self` has the
/// address asked for.
std::size_t build_advertisement(const Station& self, const NeighbourMessage& solicitation,
                                ResolutionBuffer out);

}  // namespace softhca::wire
