// How many datagrams have come from an address: the question, and the answer. Both are management
// datagrams of the performance class with an attribute of our own (docs/congestion.md). Agents that
// do not know it answer with a status that says so, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "daemon/wire/mad.hpp"

namespace softhca::wire {

/// Of a vendor, in the range that classes leave to them.
inline constexpr std::uint16_t kDatagramsReceived = 0xff64;

struct DatagramQuestion {
  std::uint64_t id = 0;
  std::uint8_t mark = 0;  ///< comes back as it is
};

struct DatagramAnswer {
  std::uint64_t id = 0;     ///< of the question
  std::uint8_t mark = 0;    ///< of the question
  bool counts = false;      ///< false: nothing is counted there, and the rest is 0
  std::uint32_t since = 0;  ///< changes when counting has begun anew
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;  ///< of payload
};

Mad encode(const DatagramQuestion& question);
Mad encode(const DatagramAnswer& answer);
/// None: it is something else.
[[nodiscard]] std::optional<DatagramQuestion> decode_datagram_question(
    std::span<const std::byte> mad);
[[nodiscard]] std::optional<DatagramAnswer> decode_datagram_answer(std::span<const std::byte> mad);

}  // namespace softhca::wire
