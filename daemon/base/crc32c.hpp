// SPDX-License-Identifier: Apache-2.0

// CRC-32C (Castagnoli): the check of state that outlives an adapter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// Returns the checksum of `bytes`. `before`: that of the bytes before them.
inline std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  static constexpr auto kTable = [] {
    constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bit-reversed
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t value = ~before;
  for (const std::byte byte : bytes)
    value = value >> 8 ^ kTable[(value ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~value;
}

}  // namespace softhca
