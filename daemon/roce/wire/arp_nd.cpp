// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/arp_nd.hpp"

#include <cassert>
#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/ethernet.hpp"
#include "daemon/roce/wire/ip.hpp"

namespace softhca::wire {

namespace {

// ARP for IPv4 on Ethernet: fixed fields, then two pairs of link and network address.
constexpr std::size_t kArpLength = 28;
constexpr std::uint64_t kArpFixed = 0x0001'0800'06'04;  ///< hardware, protocol, address lengths

// ICMPv6 neighbour messages: type, code, checksum, flags, target, options.
constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;
constexpr std::size_t kNeighbourLength = 24;
constexpr std::size_t kLinkOptionLength = 8;
constexpr std::uint8_t kSourceLinkOption = 1;
constexpr std::uint8_t kTargetLinkOption = 2;
constexpr std::uint8_t kSolicitedFlag = 0x40;
constexpr std::uint8_t kOverrideFlag = 0x20;
constexpr std::uint8_t kNeighbourHopLimit = 255;

std::uint8_t u8(std::byte b) { return std::to_integer<std::uint8_t>(b); }

std::size_t build_arp(const EthernetHeader& ethernet, ArpMessage::Operation operation,
                      const Gid& sender, const MacAddress& target_mac, const Gid& target,
                      ResolutionBuffer out) {
  assert(sender.is_ipv4() && target.is_ipv4());
  const std::size_t offset = encode_ethernet(ethernet, out.data());
  std::byte* arp = out.data() + offset;
  store_be(arp, kArpFixed << 16 | static_cast<std::uint64_t>(operation));
  store_mac(arp + 8, ethernet.source);
  store_ipv4(arp + 14, sender);
  store_mac(arp + 18, target_mac);
  store_ipv4(arp + 24, target);
  return offset + kArpLength;
}

/// Returns the sum over the pseudo header (RFC 8200 8.1) and the message, including its checksum
/// field.
std::uint16_t icmpv6_sum(const std::byte* ip, std::span<const std::byte> message) {
  std::array<std::byte, 8> tail{};
  store_be(tail.data(), static_cast<std::uint32_t>(message.size()));
  tail[7] = std::byte{kProtocolIcmpv6};
  std::uint64_t sum = add_checksum({ip + 8, 32}, 0);
  sum = add_checksum(tail, sum);
  return fold_checksum(add_checksum(message, sum));
}

/// Finds the wanted link address in the options. False: the options are malformed.
bool read_options(std::span<const std::byte> options, std::uint8_t wanted,
                  std::optional<MacAddress>& link) {
  while (!options.empty()) {
    if (options.size() < 8) return false;
    const std::size_t length = std::size_t{u8(options[1])} * 8;
    if (length == 0 || length > options.size()) return false;
    if (u8(options[0]) == wanted && length == kLinkOptionLength) link = load_mac(&options[2]);
    options = options.subspan(length);
  }
  return true;
}

/// True if the addresses obey RFC 4861 7.1.1 and 7.1.2.
bool has_valid_addresses(const NeighbourMessage& m) {
  if (m.target.is_multicast() || m.source.is_multicast()) return false;
  // A node's link address is never a group: learning one would turn unicast into multicast.
  if (m.source_mac.bytes[0] & 1 || (m.link && m.link->bytes[0] & 1)) return false;
  if (m.is_advertisement)
    return !m.source.is_zero() && !(m.destination.is_multicast() && m.solicited);
  if (!m.source.is_zero()) return true;
  return m.destination == solicited_node_group(m.target) && !m.link;
}

std::size_t build_neighbour(const EthernetHeader& ethernet, const NeighbourMessage& m,
                            ResolutionBuffer out) {
  assert(!m.source.is_ipv4() && !m.target.is_ipv4());
  std::memset(out.data(), 0, out.size());
  const std::size_t offset = encode_ethernet(ethernet, out.data());
  constexpr std::size_t kMessage = kNeighbourLength + kLinkOptionLength;
  std::byte* ip = out.data() + offset;
  ip[0] = std::byte{0x60};
  store_be(ip + 4, static_cast<std::uint16_t>(kMessage));
  ip[6] = std::byte{kProtocolIcmpv6};
  ip[7] = std::byte{kNeighbourHopLimit};
  store_ipv6(ip + 8, m.source);
  store_ipv6(ip + 24, m.destination);
  std::byte* icmp = ip + kIpv6Length;
  icmp[0] = std::byte{m.is_advertisement ? kAdvertisement : kSolicitation};
  icmp[4] = std::byte((m.solicited ? kSolicitedFlag : 0) | (m.overrides ? kOverrideFlag : 0));
  store_ipv6(icmp + 8, m.target);
  icmp[24] = std::byte{m.is_advertisement ? kTargetLinkOption : kSourceLinkOption};
  icmp[25] = std::byte{kLinkOptionLength / 8};
  store_mac(icmp + 26, ethernet.source);
  const auto sum = static_cast<std::uint16_t>(~icmpv6_sum(ip, {icmp, kMessage}));
  std::memcpy(icmp + 2, &sum, sizeof sum);
  return offset + kIpv6Length + kMessage;
}

}  // namespace

MacAddress multicast_mac(const Gid& group) {
  assert(group.is_multicast());
  const auto& b = group.bytes;
  if (group.is_ipv4())
    return {{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(b[13] & 0x7f), b[14], b[15]}};
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

Gid solicited_node_group(const Gid& address) {
  const auto& b = address.bytes;
  return {{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, b[13], b[14], b[15]}};
}

std::optional<ArpMessage> parse_arp(std::span<const std::byte> frame) {
  EthernetHeader ethernet;
  const std::size_t offset = decode_ethernet(frame, ethernet);
  if (offset == 0 || ethernet.ether_type != kEtherTypeArp || frame.size() < offset + kArpLength)
    return std::nullopt;
  const std::byte* arp = frame.data() + offset;
  const auto head = load_be<std::uint64_t>(arp);
  const auto operation = head & 0xffff;
  if (head >> 16 != kArpFixed || operation < 1 || operation > 2) return std::nullopt;
  ArpMessage m;
  m.operation = static_cast<ArpMessage::Operation>(operation);
  m.vlan = ethernet.vlan;
  m.sender_mac = load_mac(arp + 8);
  m.sender = load_ipv4(arp + 14);
  m.target_mac = load_mac(arp + 18);
  m.target = load_ipv4(arp + 24);
  if (m.sender_mac.bytes[0] & 1 || m.sender.is_multicast()) return std::nullopt;
  return m;
}

std::size_t build_arp_request(const Station& self, const Gid& target, ResolutionBuffer out) {
  return build_arp({kBroadcastMac, self.mac, self.vlan, kEtherTypeArp},
                   ArpMessage::Operation::kArpRequest, self.address, MacAddress{}, target, out);
}

std::size_t build_arp_reply(const Station& self, const ArpMessage& request, ResolutionBuffer out) {
  return build_arp({request.sender_mac, self.mac, self.vlan, kEtherTypeArp},
                   ArpMessage::Operation::kArpReply, self.address, request.sender_mac,
                   request.sender, out);
}

std::optional<NeighbourMessage> parse_neighbour(std::span<const std::byte> frame) {
  EthernetHeader ethernet;
  const std::size_t offset = decode_ethernet(frame, ethernet);
  if (offset == 0 || ethernet.ether_type != kEtherTypeIpv6 ||
      frame.size() < offset + kIpv6Length + kNeighbourLength)
    return std::nullopt;
  const std::byte* ip = frame.data() + offset;
  const std::size_t length = load_be<std::uint16_t>(ip + 4);
  if (u8(ip[0]) >> 4 != 6 || u8(ip[6]) != kProtocolIcmpv6 || u8(ip[7]) != kNeighbourHopLimit ||
      length < kNeighbourLength || length > frame.size() - offset - kIpv6Length)
    return std::nullopt;
  const std::span<const std::byte> icmp(ip + kIpv6Length, length);
  const std::uint8_t type = u8(icmp[0]);
  if ((type != kSolicitation && type != kAdvertisement) || u8(icmp[1]) != 0 ||
      icmpv6_sum(ip, icmp) != 0xffff)
    return std::nullopt;

  NeighbourMessage m;
  m.is_advertisement = type == kAdvertisement;
  m.solicited = m.is_advertisement && u8(icmp[4]) & kSolicitedFlag;
  m.overrides = m.is_advertisement && u8(icmp[4]) & kOverrideFlag;
  m.vlan = ethernet.vlan;
  m.source_mac = ethernet.source;
  m.source = load_ipv6(ip + 8);
  m.destination = load_ipv6(ip + 24);
  m.target = load_ipv6(&icmp[8]);
  const std::uint8_t wanted = m.is_advertisement ? kTargetLinkOption : kSourceLinkOption;
  if (!read_options(icmp.subspan(kNeighbourLength), wanted, m.link) || !has_valid_addresses(m))
    return std::nullopt;
  return m;
}

std::size_t build_solicitation(const Station& self, const Gid& target, ResolutionBuffer out) {
  NeighbourMessage m;
  m.source = self.address;
  m.destination = solicited_node_group(target);
  m.target = target;
  return build_neighbour({multicast_mac(m.destination), self.mac, self.vlan, kEtherTypeIpv6}, m,
                         out);
}

std::size_t build_advertisement(const Station& self, const NeighbourMessage& solicitation,
                                ResolutionBuffer out) {
  const bool is_anonymous = solicitation.source.is_zero();
  NeighbourMessage m;
  m.is_advertisement = true;
  m.solicited = !is_anonymous;
  m.overrides = true;
  m.source = self.address;
  m.destination = is_anonymous ? kAllNodes : solicitation.source;
  m.target = self.address;
  const MacAddress to =
      is_anonymous ? multicast_mac(kAllNodes) : solicitation.link.value_or(solicitation.source_mac);
  return build_neighbour({to, self.mac, self.vlan, kEtherTypeIpv6}, m, out);
}

}  // namespace softhca::wire
