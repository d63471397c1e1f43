// SPDX-License-Identifier: Apache-2.0

// Big-endian fields of packets, at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace softhca {

constexpr std::uint16_t swap_bytes(std::uint16_t v) { return __builtin_bswap16(v); }
constexpr std::uint32_t swap_bytes(std::uint32_t v) { return __builtin_bswap32(v); }
constexpr std::uint64_t swap_bytes(std::uint64_t v) { return __builtin_bswap64(v); }

template <class T>
T load_be(const std::byte* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return swap_bytes(v);
}

template <class T>
void store_be(std::byte* to, T v) {
  v = swap_bytes(v);
  std::memcpy(to, &v, sizeof v);
}

inline std::uint32_t load_be24(const std::byte* from) {
  return std::to_integer<std::uint32_t>(from[0]) << 16 |
         std::to_integer<std::uint32_t>(from[1]) << 8 | std::to_integer<std::uint32_t>(from[2]);
}

inline void store_be24(std::byte* to, std::uint32_t v) {
  to[0] = std::byte(v >> 16);
  to[1] = std::byte(v >> 8);
  to[2] = std::byte(v);
}

}  // namespace softhca
