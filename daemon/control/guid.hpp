// The GUID of a tenant's device.
#pragma once

#include <cstdint>

#include "daemon/base/net.hpp"

namespace softhca::control {

/// Unique to a tenant among those who can reach it: made of its first address, as an EUI-64 with
/// the "locally administered" bit set. Host byte order, never 0.
inline std::uint64_t node_guid(const Gid& first) {
  // FNV-1a, so that the whole of an IPv6 address counts.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : first.bytes) hash = (hash ^ byte) * 0x100000001b3;
  constexpr std::uint64_t kLocal = std::uint64_t{0x02} << 56;
  constexpr std::uint64_t kGroup = std::uint64_t{0x01} << 56;
  return (hash | kLocal) & ~kGroup;
}

}  // namespace softhca::control
