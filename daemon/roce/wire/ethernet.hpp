// SPDX-License-Identifier: Apache-2.0

// The Ethernet header with its optional 802.1Q tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/endian.hpp"
#include "daemon/base/net.hpp"
#include "daemon/roce/wire/ip.hpp"

namespace softhca::wire {

struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  std::optional<std::uint16_t> vlan;  ///< tag control: priority and VLAN id
  std::uint16_t ether_type = 0;
};

/// Returns the length of the header, or 0 if the frame ends within it.
inline std::size_t decode_ethernet(std::span<const std::byte> frame, EthernetHeader& out) {
  if (frame.size() < kEthernetLength) return 0;
  out.destination = load_mac(&frame[0]);
  out.source = load_mac(&frame[6]);
  out.vlan.reset();
  out.ether_type = load_be<std::uint16_t>(&frame[12]);
  if (out.ether_type != kEtherTypeVlan) return kEthernetLength;
  if (frame.size() < kEthernetLength + kVlanTagLength) return 0;
  out.vlan = load_be<std::uint16_t>(&frame[14]);
  out.ether_type = load_be<std::uint16_t>(&frame[16]);
  return kEthernetLength + kVlanTagLength;
}

/// Returns the length of the header. REQUIRES: room for it.
inline std::size_t encode_ethernet(const EthernetHeader& h, std::byte* to) {
  store_mac(to, h.destination);
  store_mac(to + 6, h.source);
  if (!h.vlan) {
    store_be(to + 12, h.ether_type);
    return kEthernetLength;
  }
  store_be(to + 12, kEtherTypeVlan);
  store_be(to + 14, *h.vlan);
  store_be(to + 16, h.ether_type);
  return kEthernetLength + kVlanTagLength;
}

}  // namespace softhca::wire
