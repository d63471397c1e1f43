// SPDX-License-Identifier: Apache-2.0

// Checks the ICRC of IPv4 packets with an unknown identification: the ICRC covers it, but a UDP
// socket does not report it.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/roce/wire/frame.hpp"

namespace softhca::wire {

/// CRCs are linear: the difference between the received ICRC and that of the same packet with
/// another identification tells which identification the packet had, if any fits. This uses up 16
/// of the 32 bits of the check. Most packets have one of about 128 expected identifications out of
/// 65,536, which leaves 25 bits. Packets with other identifications are reported as kUnexpected.
class HiddenIdentifications {
 public:
  enum class Soundness : std::uint8_t {
    kBroken,      ///< damaged on the way: drop it as DropReason::kBadIcrc
    kSound,       ///< intact; also any packet over IPv6 that check_icrc() accepts
    kUnexpected,  ///< intact if it was sent with an identification that was not expected
  };

  Soundness check(const ParsedFrame& frame);

 private:
  /// A sender that counts its packets in the identification.
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
  std::array<Shift, 64> shifts_{};  ///< lengths of recent packets
};

}  // namespace softhca::wire
