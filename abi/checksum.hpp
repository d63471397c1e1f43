// The doorbell checksum of a command (mechanism C5): it shows when a command is torn or
// overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/command.hpp"

namespace softhca::abi {

/// Ones' complement of the ones'-complement sum, in 32-bit words, of the header and of the
/// `payload_bytes` of payload it announces, the last word filled up with zeros. The checksum field
/// counts as it stands: set it to 0 to compute the sum to write there, leave it to check, which
/// gives 0 when all is well. Never gives 0 for a field to be written, as that means "not given"
/// (the two zeros of ones' complement, RFC 768). REQUIRES: header.payload_bytes <=
/// kCommandPayloadBytes.
inline std::uint32_t command_checksum(const CommandHeader& header, const std::byte* payload) {
  // 2^32 = 1 modulo 2^32 - 1: the halves of 64-bit words may be added to one another at the end.
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

/// False: the command is not what its process wrote. A process may leave the checksum out (0).
inline bool checksum_matches(const CommandHeader& header, const std::byte* payload) {
  return header.checksum == 0 || command_checksum(header, payload) == 0;
}

}  // namespace softhca::abi
