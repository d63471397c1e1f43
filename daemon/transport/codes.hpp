// The coded values of the AETH and of queue pair attributes, each table in one place.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::transport {

/// The NAK syndrome a responder answers `verdict` with. REQUIRES: verdict is one of
/// kRemoteInvalidRequest, kRemoteAccess, kRemoteOperation.
std::uint8_t nak_syndrome(Verdict verdict);

/// How a request ends that was answered with a fatal NAK `syndrome` (0x61..0x63; others, which no
/// sane peer sends on RC, are a kBadResponse).
Verdict nak_verdict(std::uint8_t syndrome);

/// The value of the RNR retry attribute that sets no limit (9.7.5.2.8).
inline constexpr std::uint8_t kRnrRetryForEver = 7;

/// Wait before the retry that an RNR NAK asks for (InfiniBand specification 9.7.5.2.8, table 45).
/// Only the lower five bits count.
Duration rnr_delay(std::uint8_t timer_code);

inline std::uint32_t in_microseconds(Duration wait) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(wait).count());
}

/// The longest of these, and the code of the shortest one that is at least `delay`; of the longest
/// if none is.
inline constexpr Duration kLongestRnrDelay = std::chrono::microseconds(655360);
std::uint8_t rnr_timer(Duration delay);

/// Acknowledgement timeout: 4.096 us * 2^code; zero, "never", for code 0 (9.7.6.1.3). Only the
/// lower five bits count.
Duration ack_timeout(std::uint8_t code);

/// Largest credit code whose count is at most `receives` (9.7.7.2.4). Never 0x1f.
std::uint8_t encode_credits(std::uint32_t receives);

/// Receive work requests a credit code stands for. REQUIRES: code < 0x1f.
std::uint32_t decode_credits(std::uint8_t code);

}  // namespace softhca::transport
