// SPDX-License-Identifier: Apache-2.0

// Builds frames for tests.
#pragma once

#include <algorithm>

#include "daemon/roce/wire/frame.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::test {

inline Bytes build(const wire::FramePath& path, const wire::Headers& h,
                   std::span<const std::byte> payload, std::uint16_t identification = 0) {
  const wire::FrameTemplate prepared(path);
  // Filled with rubbish, so that a byte left unwritten shows.
  Bytes frame(prepared.frame_length(h.opcode, payload.size()), std::byte{0xa5});
  wire::FrameBuilder builder(frame, prepared, h, payload.size(), identification);
  std::ranges::copy(payload, builder.payload().begin());
  frame.resize(builder.finish());
  return frame;
}

inline wire::FramePath path_of(const wire::ParsedFrame& f) {
  wire::FramePath p;
  p.source_mac = f.ethernet.source;
  p.destination_mac = f.ethernet.destination;
  p.vlan = f.ethernet.vlan;
  p.source = f.source;
  p.destination = f.destination;
  p.traffic_class = f.traffic_class;
  p.hop_limit = f.hop_limit;
  p.dont_fragment = f.dont_fragment;
  p.udp_source_port = f.udp_source_port;
  p.flow_label = f.flow_label;
  return p;
}

/// The frame that the parsed form says, from nothing else.
inline Bytes rebuild(const wire::ParsedFrame& f) {
  return build(path_of(f), f.headers, f.payload, f.identification);
}

/// 10.9.0.1 to 10.9.0.2.
inline wire::FramePath ipv4_path() {
  wire::FramePath p;
  p.source_mac = {{0x02, 0, 0, 0, 0, 1}};
  p.destination_mac = {{0x02, 0, 0, 0, 0, 2}};
  p.source = Gid::from_ipv4(0x0a090001);
  p.destination = Gid::from_ipv4(0x0a090002);
  p.udp_source_port = 0xc123;
  return p;
}

/// fe80::1 to fe80::2.
inline wire::FramePath ipv6_path() {
  wire::FramePath p = ipv4_path();
  p.source = Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  p.destination = Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  return p;
}

inline Bytes counting_payload(std::size_t n) {
  Bytes b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = std::byte(i * 7 + 3);
  return b;
}

}  // namespace softhca::test
