// SPDX-License-Identifier: Apache-2.0

// A probe that asks how many datagrams have arrived from an address, and its response. Both are
// management datagrams of the performance class with a vendor's attribute (docs/congestion.md).
// Agents that do not support it respond with a status that says so, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "daemon/roce/wire/mad.hpp"

namespace softhca::wire {

/// In the range that classes leave to vendors.
inline constexpr std::uint16_t kDatagramsReceived = 0xff64;

struct DatagramQuestion {
  std::uint64_t id = 0;
  std::uint8_t mark = 0;  ///< the response returns it
};

struct DatagramAnswer {
  std::uint64_t id = 0;     ///< of the probe
  std::uint8_t mark = 0;    ///< of the probe
  bool counts = false;      ///< false: the responder does not count, and the rest is 0
  std::uint32_t since = 0;  ///< changes when counting has restarted
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;  ///< of payload
};

/// Builds the MAD of a probe or a response.
Mad encode(const DatagramQuestion& question);
Mad encode(const DatagramAnswer& answer);
/// Parses a probe or a response. None: `mad` is something else.
[[nodiscard]] std::optional<DatagramQuestion> decode_datagram_question(
    std::span<const std::byte> mad);
[[nodiscard]] std::optional<DatagramAnswer> decode_datagram_answer(std::span<const std::byte> mad);

}  // namespace softhca::wire
