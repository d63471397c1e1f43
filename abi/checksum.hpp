// SPDX-License-Identifier: Apache-2.0

// The doorbell checksum of a command (mechanism C5). It detects a torn or overwritten command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/command.hpp"

namespace softhca::abi {

/// Returns the ones' complement of the ones'-complement sum, in 32-bit words, of the header and its
/// `payload_bytes` of payload; zeros fill the last word. The checksum field counts with its value.
/// To compute a checksum, set the field to 0; to check one, leave it, and a correct command gives
/// 0. A computed checksum is never 0, as that means "not given" (ones' complement has two zeros,
/// RFC 768). REQUIRES: header.payload_bytes <= kCommandPayloadBytes.
inline std::uint32_t command_checksum(const CommandHeader& header, const std::byte* payload) {
  // 2^32 = 1 modulo 2^32 - 1, so the halves of 64-bit words are summed apart and added at the end.
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  const auto add = [&](std::uint64_t word) {
    low += word & 0xffffffff;
    high += word >> 32;
  };
  std::uint64_t words[kCommandHeaderBytes / sizeof(std::uint64_t)];
  std::memcpy(words, &header, sizeof words);
  for (const std::uint64_t word : words) add(word);
  std::size_t left = header.payload_bytes;
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, payload, sizeof word);
    add(word);
    payload += sizeof word;
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, payload, left);
  add(tail);
  std::uint64_t sum = low + high;
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffffffff) + (sum >> 32);
  const auto checksum = static_cast<std::uint32_t>(~sum);
  return header.checksum == 0 && checksum == 0 ? 0xffffffff : checksum;
}

/// True if the command is as its process wrote it. A process may leave the checksum out (0).
inline bool checksum_matches(const CommandHeader& header, const std::byte* payload) {
  return header.checksum == 0 || command_checksum(header, payload) == 0;
}

}  // namespace softhca::abi
