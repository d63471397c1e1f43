// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/icrc.hpp"

namespace softhca::wire {

namespace {

constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kFragmentOffset = 0x1fff;

/// Parses the IPv4 header at the start of `ip`, and removes link padding behind the packet.
DropReason parse_ipv4(std::span<const std::byte>& ip, ParsedFrame& out) {
  if (ip.size() < kIpv4Length) return DropReason::kTruncated;
  if (std::to_integer<std::uint8_t>(ip[9]) != kProtocolUdp) return DropReason::kNotUdp;
  // Version 4 and five words: RoCE packets have no options.
  if (ip[0] != std::byte{0x45}) return DropReason::kBadIpHeader;
  if (fold_checksum(ipv4_checksum(ip.data())) != 0xffff) return DropReason::kBadIpChecksum;
  const std::size_t total = load_be<std::uint16_t>(&ip[2]);
  if (total > ip.size() || total < kIpv4Length) return DropReason::kBadIpLength;
  const auto fragment = load_be<std::uint16_t>(&ip[6]);
  if (fragment & (kMoreFragments | kFragmentOffset)) return DropReason::kFragment;
  out.is_ipv4 = true;
  out.dont_fragment = fragment & kDontFragment;
  out.traffic_class = std::to_integer<std::uint8_t>(ip[1]);
  out.identification = load_be<std::uint16_t>(&ip[4]);
  out.hop_limit = std::to_integer<std::uint8_t>(ip[8]);
  out.flow_label = 0;
  out.source = load_ipv4(&ip[12]);
  out.destination = load_ipv4(&ip[16]);
  ip = ip.first(total);
  return DropReason::kNone;
}

DropReason parse_ipv6(std::span<const std::byte>& ip, ParsedFrame& out) {
  if (ip.size() < kIpv6Length) return DropReason::kTruncated;
  const auto first = load_be<std::uint32_t>(&ip[0]);
  if (std::to_integer<std::uint8_t>(ip[6]) != kProtocolUdp) return DropReason::kNotUdp;
  if (first >> 28 != 6) return DropReason::kBadIpHeader;
  const std::size_t total = kIpv6Length + load_be<std::uint16_t>(&ip[4]);
  if (total > ip.size()) return DropReason::kBadIpLength;
  out.is_ipv4 = false;
  out.dont_fragment = true;
  out.traffic_class = static_cast<std::uint8_t>(first >> 20);
  out.identification = 0;
  out.hop_limit = std::to_integer<std::uint8_t>(ip[7]);
  out.flow_label = first & 0xfffff;
  out.source = load_ipv6(&ip[8]);
  out.destination = load_ipv6(&ip[24]);
  // A mapped address in an IPv6 header would look like an IPv4 peer (RFC 4291 2.5.5.2).
  if (out.source.is_ipv4() || out.destination.is_ipv4()) return DropReason::kBadIpHeader;
  ip = ip.first(total);
  return DropReason::kNone;
}

/// Parses the UDP header, and leaves in `udp` the bytes behind it.
DropReason parse_udp(std::span<const std::byte>& udp, ParsedFrame& out) {
  if (udp.size() < kUdpLength) return DropReason::kBadIpLength;
  if (load_be<std::uint16_t>(&udp[2]) != kRocePort) return DropReason::kOtherPort;
  // With a UDP length below the IP length, the ICRC would not protect the remaining bytes.
  if (load_be<std::uint16_t>(&udp[4]) != udp.size()) return DropReason::kBadUdpLength;
  if (udp.size() < kUdpLength + kBthLength + kIcrcLength) return DropReason::kShortPacket;
  out.udp_source_port = load_be<std::uint16_t>(&udp[0]);
  udp = udp.subspan(kUdpLength);
  return DropReason::kNone;
}

/// Parses the transport headers of `out.datagram`.
DropReason parse_datagram(ParsedFrame& out) {
  if (out.datagram.size() < kBthLength + kIcrcLength) return DropReason::kShortPacket;
  const auto packet = out.datagram.first(out.datagram.size() - kIcrcLength);
  if (const DropReason r = decode(packet, out.headers); r != DropReason::kNone) return r;
  const std::size_t headers = opcode_info(out.headers.opcode).header_length;
  out.payload = packet.subspan(headers, packet.size() - headers - out.headers.pad);
  return DropReason::kNone;
}

/// Parses all headers below the transport, and leaves in `frame` the bytes behind them.
DropReason parse_network(std::span<const std::byte>& frame, ParsedFrame& out) {
  const std::size_t link_length = decode_ethernet(frame, out.ethernet);
  if (link_length == 0) return DropReason::kTruncated;
  std::span<const std::byte> ip = frame.subspan(link_length);
  DropReason r = DropReason::kNotIp;
  if (out.ethernet.ether_type == kEtherTypeIpv4)
    r = parse_ipv4(ip, out);
  else if (out.ethernet.ether_type == kEtherTypeIpv6)
    r = parse_ipv6(ip, out);
  if (r != DropReason::kNone) return r;
  // No host has such an address: a response to it would go to a group, or to all.
  if (!out.source.is_unicast()) return DropReason::kBadIpHeader;
  const std::size_t ip_length = out.is_ipv4 ? kIpv4Length : kIpv6Length;
  frame = ip.subspan(ip_length);
  r = parse_udp(frame, out);
  if (r == DropReason::kNone) out.network = ip.first(ip_length + kUdpLength);
  return r;
}

}  // namespace

DropReason parse_frame(std::span<const std::byte> frame, ParsedFrame& out) {
  if (const DropReason r = parse_network(frame, out); r != DropReason::kNone) return r;
  out.datagram = frame;
  return parse_datagram(out);
}

inline DropReason FrameWalk::begin(ParsedFrame& out) {
  begun_ = true;
  std::span<const std::byte> rest = frame_;
  if (const DropReason r = parse_network(rest, out); r != DropReason::kNone) return r;
  if (segment_ == 0 || segment_ >= rest.size()) {
    out.datagram = rest;
    return parse_datagram(out);
  }
  if (segment_ < kBthLength + kIcrcLength || (rest.size() - 1) / segment_ >= kMaxTrainPackets)
    return DropReason::kBadTrain;
  std::memcpy(network_.data(), out.network.data(), out.network.size());
  out.network = {network_.data(), out.network.size()};
  traffic_class_ = out.traffic_class;
  rest_ = rest;
  cut(out);
  return parse_datagram(out);
}

DropReason FrameWalk::next(ParsedFrame& out) {
  if (!begun_) return begin(out);
  ++out.identification;
  out.traffic_class = traffic_class_;  // a caller may have marked the packet before
  cut(out);
  return parse_datagram(out);
}

/// Takes the next datagram off the train, and rewrites the headers as if it had travelled alone.
void FrameWalk::cut(ParsedFrame& out) {
  out.datagram = rest_.first(std::min(segment_, rest_.size()));
  rest_ = rest_.subspan(out.datagram.size());
  const auto udp_length = static_cast<std::uint16_t>(kUdpLength + out.datagram.size());
  std::byte* ip = network_.data();
  if (out.is_ipv4) {
    store_be(ip + 2, static_cast<std::uint16_t>(kIpv4Length + udp_length));
    // The checksum is left to write_network(): few packets need it.
    store_be(ip + 4, out.identification);
  } else {
    store_be(ip + 4, udp_length);
  }
  store_be(network_.data() + (out.network.size() - kUdpLength) + 4, udp_length);
}

std::uint32_t icrc_difference(const ParsedFrame& frame) {
  const auto covered = frame.datagram.first(frame.datagram.size() - kIcrcLength);
  const std::byte* sent = covered.data() + covered.size();
  return swap_bytes(load_be<std::uint32_t>(sent)) ^ icrc(frame.network, covered);
}

bool check_icrc(const ParsedFrame& frame) { return icrc_difference(frame) == 0; }

void write_network(const ParsedFrame& frame, std::span<std::byte> out) {
  std::memcpy(out.data(), frame.network.data(), out.size());
  if (!frame.is_ipv4) return;
  store_be(out.data() + 10, std::uint16_t{0});
  const auto sum = static_cast<std::uint16_t>(~fold_checksum(ipv4_checksum(out.data())));
  std::memcpy(out.data() + 10, &sum, sizeof sum);
}

void grh_bytes(const ParsedFrame& frame, std::span<std::byte, kGrhLength> out) {
  const std::size_t length = frame.is_ipv4 ? kIpv4Length : kIpv6Length;
  const std::size_t unused = kGrhLength - length;
  std::memset(out.data(), 0, unused);
  write_network(frame, out.subspan(unused));
}

}  // namespace softhca::wire
