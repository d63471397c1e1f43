// SPDX-License-Identifier: Apache-2.0

// How reliable connections over the network recover from loss, beyond what the InfiniBand
// specification asks for. Peers need not know: it changes no packet format (docs/reliability.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace softhca {

/// Congestion window of a queue pair, in packets, on paths where no switch marks packets
/// (pace.hpp).
struct FlightParameters {
  std::uint16_t initial_flight = 32;  ///< window before the first acknowledgement
  std::uint16_t flight_steps = 16;   ///< acknowledged packets that add one packet to a small window
  std::uint16_t borne_losses = 8;    ///< one loss in so many packets does not count as congestion
  std::uint16_t queued_packets = 3;  ///< with so many queued on the path, any loss counts

  bool operator==(const FlightParameters&) const = default;
};

struct ReliabilityParameters {
  /// True: requesters retransmit only the missing packets, if the peer buffers those behind them.
  bool selective_repeat = true;
  std::uint32_t kept_packets = 8192;  ///< size of the out-of-order buffer, in packets
  std::uint32_t out_of_order = 128;   ///< of a queue pair: most packets ahead; 0: none
  FlightParameters flight;

  bool operator==(const ReliabilityParameters&) const = default;
};

/// Returns the most packets that a tenant may have in the out-of-order buffer. Not given: half of
/// it, so that one tenant alone cannot fill it.
constexpr std::uint32_t kept_watermark(std::optional<std::uint32_t> given,
                                       const ReliabilityParameters& parameters) {
  return given.value_or(
      std::max(parameters.kept_packets / 2, std::min(parameters.kept_packets, 1u)));
}

}  // namespace softhca
