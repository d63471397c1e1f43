// SPDX-License-Identifier: Apache-2.0

// The rules that assign queue pairs to a level by their paths (mechanism A7).
#pragma once

#include <cstdint>

namespace softhca::engine {

/// The service levels and traffic classes of address vectors that assign a queue pair to a level.
/// Only the DSCP of a traffic class counts: the other two bits are for ECN (RFC 3168).
struct PathRules {
  static constexpr std::uint8_t kServiceLevels = 16;  ///< IBA 7.6.5

  std::uint16_t service_levels = 0;  ///< one bit for each service level
  std::uint64_t dscps = 0;           ///< one bit for each DSCP

  static constexpr unsigned dscp_of(std::uint8_t traffic_class) { return traffic_class >> 2; }
  bool has_service_level(std::uint8_t service_level) const {
    return service_level < kServiceLevels && (service_levels >> service_level & 1) != 0;
  }
  bool has_traffic_class(std::uint8_t traffic_class) const {
    return (dscps >> dscp_of(traffic_class) & 1) != 0;
  }
  bool operator==(const PathRules&) const = default;
};

}  // namespace softhca::engine
