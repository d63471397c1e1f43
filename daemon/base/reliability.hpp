// How reliable connections of the wire get over loss, beyond what the InfiniBand specification asks
// for: nothing on the wire tells a peer (docs/reliability.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace softhca {

/// How many packets of a queue pair are under way between machines where no switch marks any
/// (transport/pace.hpp).
struct FlightParameters {
  std::uint16_t initial_flight = 32;  ///< packets sent before anything is acknowledged
  std::uint16_t flight_steps = 16;    ///< acknowledged packets that add one to a small flight
  std::uint16_t borne_losses = 8;     ///< one packet in so many may be lost without consequence
  std::uint16_t queued_packets = 3;   ///< if so many wait in a queue on the way, none may

  bool operator==(const FlightParameters&) const = default;
};

struct ReliabilityParameters {
  /// Requesters send again what is missing, and no more, where the peer keeps what came behind it.
  bool selective_repeat = true;
  std::uint32_t kept_packets = 8192;  ///< room for packets that came before their turn
  std::uint32_t out_of_order = 128;   ///< of a queue pair: kept if no farther ahead; 0: none
  FlightParameters flight;

  bool operator==(const ReliabilityParameters&) const = default;
};

/// The most that a tenant keeps. Not given: half of the room, so that one alone cannot use it up.
constexpr std::uint32_t kept_watermark(std::optional<std::uint32_t> given,
                                       const ReliabilityParameters& parameters) {
  return given.value_or(
      std::max(parameters.kept_packets / 2, std::min(parameters.kept_packets, 1u)));
}

}  // namespace softhca
