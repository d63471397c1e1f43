// SPDX-License-Identifier: Apache-2.0

// The UDP source port of a queue pair. Switches select among equal paths by it. So it differs
// between queue pairs, and never changes for one.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::wire {

/// The dynamic ports; the low 14 bits are free to choose.
inline constexpr std::uint16_t kSourcePortBase = 0xc000;

/// Returns the port for a 20-bit flow label: the high bits folded onto the low 14.
constexpr std::uint16_t source_port(std::uint32_t flow_label) {
  return static_cast<std::uint16_t>(kSourcePortBase |
                                    ((flow_label ^ (flow_label & 0xfffff) >> 14) & 0x3fff));
}

/// Returns the port of a connected queue pair: from the flow label of its address vector or, if
/// that is 0, from both queue pair numbers, the same in both directions.
constexpr std::uint16_t source_port(std::uint32_t flow_label, Qpn local, Qpn remote) {
  if (flow_label != 0) return source_port(flow_label);
  std::uint64_t v = std::uint64_t{local.value} * remote.value;
  v ^= v >> 20;
  v ^= v >> 40;
  return source_port(static_cast<std::uint32_t>(v & 0xfffff));
}

/// Returns the port of a datagram queue pair: its number, scattered by the golden ratio.
constexpr std::uint16_t datagram_source_port(Qpn local) {
  return static_cast<std::uint16_t>(kSourcePortBase | (local.value * 0x61c88647u) >> 18);
}

}  // namespace softhca::wire
