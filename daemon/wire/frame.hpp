// Whole frames: Ethernet, perhaps an 802.1Q tag, IPv4 or IPv6, UDP port 4791, transport headers,
// payload, pad, ICRC. Parsing is one pass over the headers; the payload is only read by the ICRC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/net.hpp"
#include "daemon/wire/codec.hpp"
#include "daemon/wire/ethernet.hpp"
#include "daemon/wire/ip.hpp"

namespace softhca::wire {

/// Explicit congestion notification, the low two bits of the traffic class (RFC 3168).
inline constexpr std::uint8_t kEcnMask = 0x03;
inline constexpr std::uint8_t kEcnCongested = 0x03;

/// Length of the routing header area in front of a datagram in a receive buffer.
inline constexpr std::size_t kGrhLength = 40;

/// A received RoCE packet. Points into the frame it was parsed from.
struct ParsedFrame {
  EthernetHeader ethernet;
  Gid source;
  Gid destination;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  bool is_ipv4 = false;
  bool dont_fragment = true;  ///< always so with IPv6
  std::uint16_t udp_source_port = 0;
  std::uint16_t identification = 0;  ///< IPv4 only
  std::uint32_t flow_label = 0;      ///< 20 bits, IPv6 only
  Headers headers;
  std::span<const std::byte> payload;    ///< without pad
  std::span<const std::byte> ip_packet;  ///< IP header to the end of the ICRC

  bool is_congested() const { return (traffic_class & kEcnMask) == kEcnCongested; }
};

/// Reads a frame. kNone: `out` is filled and every later use of it is safe. A foreign reason
/// (is_foreign()): no RoCE packet. Any other: malformed. The ICRC is not checked here, and neither
/// is a UDP checksum: senders leave it 0, and the ICRC is the stronger test.
[[nodiscard]] DropReason parse_frame(std::span<const std::byte> frame, ParsedFrame& out);

/// Bytes of the whole frame, without what Ethernet pads it with and the FCS.
inline std::size_t frame_length(const ParsedFrame& frame) {
  const std::size_t tag = frame.ethernet.vlan ? kVlanTagLength : 0;
  return kEthernetLength + tag + frame.ip_packet.size();
}

/// False when the packet was damaged on the way: drop it as DropReason::kBadIcrc.
[[nodiscard]] bool check_icrc(const ParsedFrame& frame);

/// The addresses of a flow, both ends IPv4 (mapped) or both IPv6.
struct FramePath {
  MacAddress source_mac;
  MacAddress destination_mac;
  std::optional<std::uint16_t> vlan;  ///< tag control: priority and VLAN id
  Gid source;
  Gid destination;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool dont_fragment = true;  ///< IPv4 only
  std::uint16_t udp_source_port = kRocePort;
  std::uint32_t flow_label = 0;  ///< 20 bits, IPv6 only
};

/// Everything before the transport headers, ready to be copied into each packet of a path. Built
/// once for a queue pair or address handle.
class FrameTemplate {
 public:
  FrameTemplate() = default;
  explicit FrameTemplate(const FramePath& path);

  bool is_ipv4() const { return network_length_ == kIpv4Length; }
  /// Bytes from the Ethernet header to the base transport header.
  std::size_t length() const { return link_length_ + network_length_ + kUdpLength; }
  /// Bytes of the whole frame.
  /// REQUIRES: a known opcode.
  std::size_t frame_length(std::uint8_t opcode, std::size_t payload_length) const;

 private:
  friend class FrameBuilder;
  friend void grh_bytes(const FrameTemplate&, std::uint8_t, std::size_t,
                        std::span<std::byte, kGrhLength>);
  /// Fills the fields of an IP header copied from here that differ from packet to packet.
  void complete_ip_header(std::byte* ip, std::size_t udp_length, std::uint16_t id) const;
  const std::byte* ip_header() const { return bytes_.data() + link_length_; }

  std::array<std::byte, kEthernetLength + kVlanTagLength + kIpv6Length + kUdpLength> bytes_{};
  std::uint8_t link_length_ = 0;
  std::uint8_t network_length_ = 0;
  std::uint64_t checksum_ = 0;  ///< sum of the IPv4 header without length and identification
};

/// One outgoing packet: the constructor writes all headers, the caller fills payload(), finish()
/// writes pad and ICRC.
class FrameBuilder {
 public:
  /// REQUIRES: a known opcode; `buffer` holds path.frame_length(h.opcode, payload_length); the IP
  /// packet stays within 65535 bytes. `identification` goes into an IPv4 header.
  FrameBuilder(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& h,
               std::size_t payload_length, std::uint16_t identification);

  std::span<std::byte> payload() const { return {payload_, payload_length_}; }
  /// Returns the length of the frame.
  std::size_t finish();

 private:
  std::byte* frame_;
  std::byte* ip_;
  std::byte* payload_;
  std::size_t payload_length_;
};

/// The routing header area for a received datagram: its IPv6 header, or 20 zero bytes and its IPv4
/// header.
void grh_bytes(const ParsedFrame& frame, std::span<std::byte, kGrhLength> out);

/// The same for a datagram that is delivered locally and never becomes a frame: as if it had been
/// sent on `path`, identification 0.
/// REQUIRES: a known opcode.
void grh_bytes(const FrameTemplate& path, std::uint8_t opcode, std::size_t payload_length,
               std::span<std::byte, kGrhLength> out);

}  // namespace softhca::wire
