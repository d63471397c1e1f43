// SPDX-License-Identifier: Apache-2.0

// Why the port drops a received frame before the transport. Each value has a counter in the port.
#pragma once

#include <cstdint>

namespace softhca::wire {

enum class DropReason : std::uint8_t {
  kNone,  ///< not dropped
  // Not RoCE: unrelated traffic, or ARP and neighbour discovery (arp_nd.hpp).
  kNotIp,
  kNotUdp,
  kOtherPort,
  // Malformed.
  kTruncated,    ///< the frame ends within its Ethernet or IP header
  kBadIpHeader,  ///< IP version, options or addresses that RoCE does not use
  kBadIpLength,  ///< IP length field larger than the frame, or too small for UDP
  kBadIpChecksum,
  kFragment,
  kBadUdpLength,  ///< the UDP packet does not fill the IP packet exactly
  kShortPacket,   ///< no room for the transport headers and ICRC
  kBadVersion,    ///< transport header version not 0
  kUnknownOpcode,
  kBadPad,             ///< pad count larger than the payload, or payload + pad not a multiple of 4
  kUnexpectedPayload,  ///< bytes after the headers of a packet that carries none
  kBadIcrc,
  kUnauthenticated,  ///< has a plain ICRC, but its sender must send a tag
  kWrongKey,         ///< the sender shares keys with this host, but neither a tag nor an ICRC fits
  kBadTrain,         ///< has too many packets, or packets too short for RoCE
  kCount,
};

/// True if the frame is not a RoCE packet, rather than a broken one.
constexpr bool is_foreign(DropReason r) {
  return r == DropReason::kNotIp || r == DropReason::kNotUdp || r == DropReason::kOtherPort;
}

/// Returns the name for metrics and logs, lower case with underscores.
constexpr const char* name(DropReason r) {
  switch (r) {
    case DropReason::kNone:
      return "none";
    case DropReason::kNotIp:
      return "not_ip";
    case DropReason::kNotUdp:
      return "not_udp";
    case DropReason::kOtherPort:
      return "other_port";
    case DropReason::kTruncated:
      return "truncated";
    case DropReason::kBadIpHeader:
      return "bad_ip_header";
    case DropReason::kBadIpLength:
      return "bad_ip_length";
    case DropReason::kBadIpChecksum:
      return "bad_ip_checksum";
    case DropReason::kFragment:
      return "fragment";
    case DropReason::kBadUdpLength:
      return "bad_udp_length";
    case DropReason::kShortPacket:
      return "short_packet";
    case DropReason::kBadVersion:
      return "bad_version";
    case DropReason::kUnknownOpcode:
      return "unknown_opcode";
    case DropReason::kBadPad:
      return "bad_pad";
    case DropReason::kUnexpectedPayload:
      return "unexpected_payload";
    case DropReason::kBadIcrc:
      return "bad_icrc";
    case DropReason::kUnauthenticated:
      return "unauthenticated";
    case DropReason::kWrongKey:
      return "wrong_key";
    case DropReason::kBadTrain:
      return "bad_train";
    case DropReason::kCount:
      break;
  }
  return "unknown";
}

}  // namespace softhca::wire
