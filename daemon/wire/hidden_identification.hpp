// The ICRC of IPv4 packets whose identification is not seen: a UDP socket does not show it, and the
// ICRC covers it.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/wire/frame.hpp"

namespace softhca::wire {

/// CRCs are linear: what lies between the ICRC that came and that of the same packet with another
/// identification says which identification it was sent with, if one fits at all. 16 of the 32 bits
/// of the check are spent on that. Most packets have an identification that was to be expected
/// (128 or so of the 65,536), which leaves 25 bits: others are told apart.
class HiddenIdentifications {
 public:
  enum class Soundness : std::uint8_t {
    kBroken,      ///< damaged on the way: drop it as DropReason::kBadIcrc
    kSound,       ///< and so is any packet over IPv6 that check_icrc() accepts
    kUnexpected,  ///< sound if it has an identification that nobody expected
  };

  Soundness check(const ParsedFrame& frame);

 private:
  /// A sender that counts its packets.
  struct Sender {
    std::uint32_t address = 0;
    std::uint16_t last = 0;
  };
  struct Shift {
    std::size_t bytes = 0;
    std::uint32_t factor = 0;
  };

  std::uint32_t factor_for(std::size_t bytes);
  bool expect(const Gid& source, std::uint16_t identification);

  std::array<Sender, 256> senders_{};
  std::array<Shift, 64> shifts_{};  ///< lengths of packets seen lately
};

}  // namespace softhca::wire
