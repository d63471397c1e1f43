// SPDX-License-Identifier: Apache-2.0

// The recorded events of a queue pair: errors, retries and changes of state. Success is not
// recorded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/records/qp_attributes.hpp"

namespace softhca::engine {

enum class QpEventKind : std::uint8_t {
  kNone,
  kState,   ///< detail: state_detail()
  kFailed,  ///< the queue pair fails; detail: QpFailure
  // As a sender.
  kTimeout,              ///< no acknowledgement; detail: retries left
  kEarlyRetry,           ///< no acknowledgement for longer than usual
  kProbe,                ///< no answer for two round trips
  kResponseMissed,       ///< a response to a read or atomic is missing, a later one arrived
  kSequenceNakReceived,  ///< the peer misses a packet
  kNakReceived,          ///< a fatal one; detail: its syndrome
  kRnrNakReceived,       ///< the peer has no receive; detail: us to wait
  kCongestion,           ///< a notification arrived; detail: the new rate in kB/s
  kCommandFailed,        ///< detail: Verdict
  kCommandsFlushed,
  // As a receiver.
  kSequenceNakSent,
  kNakSent,         ///< detail: its syndrome
  kRnrNakSent,      ///< it has no receive
  kOverRate,        ///< the peer exceeds its rate: it waits, or its packets are dropped
  kDuplicate,       ///< a request that was executed before
  kOutOfSequence,   ///< a request behind a gap
  kAccessRefused,   ///< detail: the key
  kBadRequest,      ///< detail: transport::Count
  kReceiveMissing,  ///< UC, UD: a message is dropped
  kReceiveFailed,   ///< detail: Verdict
  kReceivesFlushed,
  kCount,
};

/// One event, or several of the same kind in succession.
struct QpEvent {
  Time first{};
  std::uint32_t lasted_ms = 0;  ///< from the first to the last of them, in ms
  std::uint32_t count = 0;
  std::uint32_t detail = 0;  ///< detail of the last of them
  std::uint32_t psn : 24 = 0;
  std::uint32_t has_psn : 1 = 0;
  std::uint32_t kind_bits : 7 = 0;

  QpEventKind kind() const { return static_cast<QpEventKind>(kind_bits); }
  Time last() const { return first + std::chrono::milliseconds(lasted_ms); }
};
static_assert(sizeof(QpEvent) == 24);

/// The last events of a queue pair, oldest first.
struct QpPast {
  static constexpr std::size_t kKept = 16;

  std::array<QpEvent, kKept> events{};
  std::uint32_t count = 0;
};

constexpr std::uint32_t state_detail(QpState from, QpState to) {
  return static_cast<std::uint32_t>(from) << 8 | static_cast<std::uint32_t>(to);
}

/// Returns one word, for programs.
const char* name_of(QpEventKind kind);
/// Returns a sentence for people, without the time and the count.
std::string text_of(const QpEvent& event);

}  // namespace softhca::engine
