// SPDX-License-Identifier: Apache-2.0

// Whole frames: Ethernet, possibly an 802.1Q tag, IPv4 or IPv6, UDP port 4791, transport headers,
// payload, pad, ICRC. Parsing makes one pass over the headers; only the ICRC check reads the
// payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "daemon/base/net.hpp"
#include "daemon/roce/wire/codec.hpp"
#include "daemon/roce/wire/ethernet.hpp"
#include "daemon/roce/wire/ip.hpp"

namespace softhca::wire {

class PacketKey;

/// Explicit congestion notification, the low two bits of the traffic class (RFC 3168).
inline constexpr std::uint8_t kEcnMask = 0x03;
inline constexpr std::uint8_t kEcnCongested = 0x03;

/// Length of the routing header area in front of a datagram in a receive buffer.
inline constexpr std::size_t kGrhLength = 40;

/// Shortest and longest headers below the transport.
inline constexpr std::size_t kMinNetworkHeaders = kEthernetLength + kIpv4Length + kUdpLength;
inline constexpr std::size_t kMaxNetworkHeaders =
    kEthernetLength + kVlanTagLength + kIpv6Length + kUdpLength;

/// A received RoCE packet. Points into the frame it was parsed from, and into the FrameWalk.
struct ParsedFrame {
  EthernetHeader ethernet;
  Gid source;
  Gid destination;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  bool is_ipv4 = false;
  bool dont_fragment = true;  ///< always true with IPv6
  std::uint16_t udp_source_port = 0;
  std::uint16_t identification = 0;  ///< IPv4 only
  std::uint32_t flow_label = 0;      ///< 20 bits, IPv6 only
  Headers headers;
  std::span<const std::byte> payload;   ///< without pad
  std::span<const std::byte> network;   ///< IP and UDP header; rewritten for a packet of a train
  std::span<const std::byte> datagram;  ///< from the transport headers to the end of the ICRC

  bool is_ecn_capable() const { return (traffic_class & kEcnMask) != 0; }
  bool is_congested() const { return (traffic_class & kEcnMask) == kEcnCongested; }
};

/// Parses a frame of one packet. On kNone, `out` is filled and safe to use. A foreign reason
/// (is_foreign()): the frame is not a RoCE packet. Any other reason: it is malformed. Does not
/// check the ICRC, nor a UDP checksum: senders leave it 0, and the ICRC is the stronger test.
[[nodiscard]] DropReason parse_frame(std::span<const std::byte> frame, ParsedFrame& out);

/// Most packets of a received train. Linux makes no longer ones. Tenants are charged by the frame,
/// so a limit is needed: one frame must not cost the parsing of thousands of packets.
inline constexpr std::size_t kMaxTrainPackets = 128;

/// Iterates over the packets of a frame. The frame is one packet or a train: datagrams of one size,
/// the last possibly shorter, behind one set of headers for all of them.
class FrameWalk {
 public:
  /// `segment`: payload of each datagram, below the UDP header; 0: the frame is one packet. `frame`
  /// must outlive the walk, and the walk its parsed packets.
  FrameWalk(std::span<const std::byte> frame, std::size_t segment)
      : frame_(frame), segment_(segment) {}
  FrameWalk(const FrameWalk&) = delete;
  FrameWalk& operator=(const FrameWalk&) = delete;

  /// Parses the next packet, as parse_frame() does. REQUIRES: `out` is the same in each call.
  [[nodiscard]] DropReason next(ParsedFrame& out);
  /// True if the frame has more packets. REQUIRES: next() has been called.
  bool has_more() const { return !rest_.empty(); }

 private:
  DropReason begin(ParsedFrame& out);
  void cut(ParsedFrame& out);

  std::span<const std::byte> frame_;
  std::size_t segment_;
  std::span<const std::byte> rest_;  ///< datagrams not read yet
  std::uint8_t traffic_class_ = 0;   ///< of a train
  bool begun_ = false;
  std::array<std::byte, kIpv6Length + kUdpLength> network_;  ///< of the current packet of a train
};

/// Returns the bytes of the whole frame, without Ethernet padding and FCS.
inline std::size_t frame_length(const ParsedFrame& frame) {
  const std::size_t tag = frame.ethernet.vlan ? kVlanTagLength : 0;
  return kEthernetLength + tag + frame.network.size() + frame.datagram.size();
}

/// False: the packet was damaged on the way; drop it as DropReason::kBadIcrc.
[[nodiscard]] bool check_icrc(const ParsedFrame& frame);

/// Returns the received ICRC XOR the correct one.
std::uint32_t icrc_difference(const ParsedFrame& frame);

/// Returns the bytes of transport headers, payload, pad and ICRC. REQUIRES: a known opcode.
constexpr std::size_t datagram_length(std::uint8_t opcode, std::size_t payload_length) {
  return opcode_info(opcode).header_length + payload_length + pad_for(payload_length) + kIcrcLength;
}

/// The addresses of a path; both ends are IPv4 (mapped) or both IPv6.
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
  PacketKey* key = nullptr;      ///< packets end with a tag of this key; null: with an ICRC
};

/// The headers below the transport, to be copied into each packet of a path. Built once for a queue
/// pair or address handle.
class FrameTemplate {
 public:
  FrameTemplate() = default;
  explicit FrameTemplate(const FramePath& path);

  bool is_ipv4() const { return network_length_ == kIpv4Length; }
  bool is_empty() const { return network_length_ == 0; }
  /// Returns the traffic class. REQUIRES: not empty.
  std::uint8_t traffic_class() const;
  /// Returns the bytes from the Ethernet header to the base transport header.
  std::size_t length() const { return link_length_ + network_length_ + kUdpLength; }
  std::size_t link_length() const { return link_length_; }
  PacketKey* key() const { return key_; }
  /// True if both write the same headers.
  bool operator==(const FrameTemplate& other) const {
    return length() == other.length() &&
           std::memcmp(bytes_.data(), other.bytes_.data(), length()) == 0;
  }
  /// Writes the headers, length() bytes, for a datagram with `datagram` bytes behind the UDP
  /// header. REQUIRES: the IP packet has at most 65535 bytes.
  void write(std::byte* to, std::size_t datagram, std::uint16_t identification) const;
  /// Returns the bytes of the whole frame. REQUIRES: a known opcode.
  std::size_t frame_length(std::uint8_t opcode, std::size_t payload_length) const {
    return length() + datagram_length(opcode, payload_length);
  }

 private:
  friend class FrameBuilder;
  friend void grh_bytes(const FrameTemplate&, std::uint8_t, std::size_t,
                        std::span<std::byte, kGrhLength>);
  /// Sets the fields of a copied IP header that differ from packet to packet.
  void complete_ip_header(std::byte* ip, std::size_t udp_length, std::uint16_t id) const;
  const std::byte* ip_header() const { return bytes_.data() + link_length_; }

  std::array<std::byte, kMaxNetworkHeaders> bytes_{};
  std::uint8_t link_length_ = 0;
  std::uint8_t network_length_ = 0;
  std::uint64_t checksum_ = 0;  ///< sum of the IPv4 header without length and identification
  PacketKey* key_ = nullptr;
};

/// Builds one outgoing packet: the constructor writes all headers, the caller fills payload(), and
/// finish() writes the pad and the ICRC or tag.
class FrameBuilder {
 public:
  /// REQUIRES: a known opcode; `buffer` holds path.frame_length(h.opcode, payload_length); the IP
  /// packet has at most 65535 bytes. `identification` is for an IPv4 header.
  FrameBuilder(std::span<std::byte> buffer, const FrameTemplate& path, const Headers& h,
               std::size_t payload_length, std::uint16_t identification);

  std::span<std::byte> payload() const { return {payload_, payload_length_}; }
  /// Returns the length of the frame.
  std::size_t finish();

 private:
  std::byte* frame_;
  std::byte* ip_;
  std::byte* transport_;
  std::byte* payload_;
  std::size_t payload_length_;
  PacketKey* key_;
};

/// Copies the first out.size() bytes of the IP and UDP header, with the checksum of IPv4, which
/// packets of a train lack. REQUIRES: the IP header fits.
void write_network(const ParsedFrame& frame, std::span<std::byte> out);

/// Writes the routing header area for a received datagram: its IPv6 header, or 20 zero bytes and
/// its IPv4 header.
void grh_bytes(const ParsedFrame& frame, std::span<std::byte, kGrhLength> out);

/// As above, for a datagram that is delivered locally and never becomes a frame: as if it had been
/// sent on `path`, with identification 0. REQUIRES: a known opcode.
void grh_bytes(const FrameTemplate& path, std::uint8_t opcode, std::size_t payload_length,
               std::span<std::byte, kGrhLength> out);

}  // namespace softhca::wire
