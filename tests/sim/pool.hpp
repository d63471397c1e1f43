// SPDX-License-Identifier: Apache-2.0

// Bytes messages are made of: a message is a stretch of one fixed pool, so that what arrives is
// compared without keeping copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/random.hpp"

namespace softhca::sim {

inline constexpr std::uint32_t kPoolBytes = 1u << 21;

inline const std::vector<std::byte>& byte_pool() {
  static const std::vector<std::byte> pool = [] {
    std::vector<std::byte> bytes(kPoolBytes);
    Random random(42);
    for (std::byte& b : bytes) b = std::byte(random.next());
    return bytes;
  }();
  return pool;
}

inline std::span<const std::byte> pool_bytes(std::uint32_t start, std::uint32_t length) {
  return std::span(byte_pool()).subspan(start, length);
}

}  // namespace softhca::sim
