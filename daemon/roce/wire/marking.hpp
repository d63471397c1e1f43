// SPDX-License-Identifier: Apache-2.0

// How the adapter marks packets of a tenant or a level, so that the network can tell them apart.
#pragma once

#include <cstdint>
#include <optional>

namespace softhca {

struct Marking {
  /// Differentiated services code point, 0 to 63 (RFC 2474). None: the program decides, by the
  /// traffic class of its path.
  std::optional<std::uint8_t> dscp;
  /// Priority in the VLAN tag, 0 to 7 (802.1Q). None: 0.
  std::optional<std::uint8_t> priority;

  /// Returns this marking, with each value that it lacks taken from `other`.
  Marking or_else(const Marking& other) const {
    return {dscp ? dscp : other.dscp, priority ? priority : other.priority};
  }
};

}  // namespace softhca
