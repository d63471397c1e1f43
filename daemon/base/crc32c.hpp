// SPDX-License-Identifier: Apache-2.0

// CRC-32C (Castagnoli): the check of state that outlives an adapter.
#pragma once

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// Returns the checksum of `bytes`. `before`: that of the bytes before them.
inline std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  // It does not write to the bytes.
  auto* const first = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  return ~crc32_iscsi(first, static_cast<int>(bytes.size()), ~before);
}

}  // namespace softhca
