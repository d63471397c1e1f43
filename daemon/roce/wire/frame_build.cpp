// SPDX-License-Identifier: Apache-2.0

#include <cassert>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/icrc.hpp"
#include "daemon/roce/wire/packet_tag.hpp"

namespace softhca::wire {

namespace {

/// Writes an IPv4 header with zeros for length, identification and checksum.
void write_ipv4(const FramePath& path, std::byte* ip) {
  ip[0] = std::byte{0x45};
  ip[1] = std::byte{path.traffic_class};
  if (path.dont_fragment) store_be(ip + 6, kDontFragment);
  ip[8] = std::byte{path.hop_limit};
  ip[9] = std::byte{kProtocolUdp};
  store_ipv4(ip + 12, path.source);
  store_ipv4(ip + 16, path.destination);
}

/// Writes an IPv6 header with zero for the payload length.
void write_ipv6(const FramePath& path, std::byte* ip) {
  store_be(ip, std::uint32_t{6} << 28 | std::uint32_t{path.traffic_class} << 20 |
                   (path.flow_label & 0xfffff));
  ip[6] = std::byte{kProtocolUdp};
  ip[7] = std::byte{path.hop_limit};
  store_ipv6(ip + 8, path.source);
  store_ipv6(ip + 24, path.destination);
}

}  // namespace

FrameTemplate::FrameTemplate(const FramePath& path) : key_(path.key) {
  const bool ipv4 = path.destination.is_ipv4();
  assert(ipv4 == path.source.is_ipv4());
  link_length_ = static_cast<std::uint8_t>(encode_ethernet(
      {path.destination_mac, path.source_mac, path.vlan, ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6},
      bytes_.data()));
  std::byte* ip = bytes_.data() + link_length_;
  if (ipv4) {
    network_length_ = kIpv4Length;
    write_ipv4(path, ip);
    checksum_ = ipv4_checksum(ip);
  } else {
    network_length_ = kIpv6Length;
    write_ipv6(path, ip);
  }
  // The UDP checksum stays 0, "none", on IPv6 too: the ICRC covers the packet (annex A17.3.2).
  std::byte* udp = ip + network_length_;
  store_be(udp, path.udp_source_port);
  store_be(udp + 2, kRocePort);
}

void FrameTemplate::complete_ip_header(std::byte* ip, std::size_t udp_length,
                                       std::uint16_t id) const {
  if (!is_ipv4()) {
    store_be(ip + 4, static_cast<std::uint16_t>(udp_length));
    return;
  }
  store_be(ip + 2, static_cast<std::uint16_t>(kIpv4Length + udp_length));
  store_be(ip + 4, id);
  const auto sum = static_cast<std::uint16_t>(~fold_checksum(add_checksum({ip + 2, 4}, checksum_)));
  std::memcpy(ip + 10, &sum, sizeof sum);
}

std::uint8_t FrameTemplate::traffic_class() const {
  if (is_ipv4()) return std::to_integer<std::uint8_t>(ip_header()[1]);
  return static_cast<std::uint8_t>(load_be<std::uint32_t>(ip_header()) >> 20);
}

void FrameTemplate::write(std::byte* to, std::size_t datagram, std::uint16_t identification) const {
  const std::size_t udp_bytes = kUdpLength + datagram;
  assert(network_length_ + udp_bytes <= 0xffff);
  // Most headers have the shortest length, which is constant, so that it is copied without a call.
  std::memcpy(to, bytes_.data(), kMinNetworkHeaders);
  if (length() > kMinNetworkHeaders)
    std::memcpy(to + kMinNetworkHeaders, bytes_.data() + kMinNetworkHeaders,
                length() - kMinNetworkHeaders);
  std::byte* ip = to + link_length_;
  complete_ip_header(ip, udp_bytes, identification);
  store_be(ip + network_length_ + 4, static_cast<std::uint16_t>(udp_bytes));
}

FrameBuilder::FrameBuilder(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& h,
                           std::size_t payload_length, std::uint16_t identification)
    : frame_(buffer.data()),
      ip_(buffer.data() + path.link_length_),
      transport_(buffer.data() + path.length()),
      payload_length_(payload_length),
      key_(path.key_) {
  const std::size_t datagram = datagram_length(h.opcode, payload_length);
  assert(buffer.size() >= path.length() + datagram);
  path.write(frame_, datagram, identification);
  payload_ = transport_ + encode(h, payload_length, transport_);
}

std::size_t FrameBuilder::finish() {
  std::byte* end = payload_ + payload_length_;
  for (std::size_t n = pad_for(payload_length_); n > 0; --n) *end++ = std::byte{0};
  const std::span<const std::byte> network(ip_, transport_), transport(transport_, end);
  const std::uint32_t trailer =
      key_ == nullptr ? icrc(network, transport) : TagSum(*key_, network, transport).finish();
  store_be(end, swap_bytes(trailer));
  return static_cast<std::size_t>(end + kIcrcLength - frame_);
}

void grh_bytes(const FrameTemplate& path, std::uint8_t opcode, std::size_t payload_length,
               std::span<std::byte, kGrhLength> out) {
  const std::size_t unused = kGrhLength - path.network_length_;
  std::memset(out.data(), 0, unused);
  std::byte* ip = out.data() + unused;
  std::memcpy(ip, path.ip_header(), path.network_length_);
  path.complete_ip_header(ip, kUdpLength + datagram_length(opcode, payload_length), 0);
}

}  // namespace softhca::wire
