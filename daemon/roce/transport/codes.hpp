// SPDX-License-Identifier: Apache-2.0

// Encoded values of the AETH and of queue pair attributes.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::transport {

/// Returns the NAK syndrome for `verdict`. REQUIRES: verdict is one of kRemoteInvalidRequest,
/// kRemoteAccess, kRemoteOperation.
std::uint8_t nak_syndrome(Verdict verdict);

/// Returns how a request ends that was answered with a fatal NAK `syndrome` (0x61..0x63). Other
/// values are invalid on RC and yield kBadResponse.
Verdict nak_verdict(std::uint8_t syndrome);

/// RNR retry attribute without a limit (9.7.5.2.8).
inline constexpr std::uint8_t kRnrRetryForEver = 7;

/// Returns the wait that an RNR NAK asks for (InfiniBand specification 9.7.5.2.8, table 45). Only
/// the lower five bits count.
Duration rnr_delay(std::uint8_t timer_code);

inline std::uint32_t in_microseconds(Duration wait) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(wait).count());
}

/// The longest RNR wait.
inline constexpr Duration kLongestRnrDelay = std::chrono::microseconds(655360);
/// Returns the code of the shortest RNR wait that is at least `delay`, or of the longest if none
/// is.
std::uint8_t rnr_timer(Duration delay);

/// Returns the acknowledgement timeout, 4.096 us * 2^code, or zero ("never") for code 0
/// (9.7.6.1.3). Only the lower five bits count.
Duration ack_timeout(std::uint8_t code);

/// Returns the largest credit code that stands for at most `receives` (9.7.7.2.4). Never 0x1f.
std::uint8_t encode_credits(std::uint32_t receives);

/// Returns the number of receive work requests of a credit code. REQUIRES: code < 0x1f.
std::uint32_t decode_credits(std::uint8_t code);

}  // namespace softhca::transport
