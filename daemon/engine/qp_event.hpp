// What is kept of a queue pair's past: trouble and changes of state, never what went well.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/qp_attributes.hpp"

namespace softhca::engine {

enum class QpEventKind : std::uint8_t {
  kNone,
  kState,   ///< detail: state_detail()
  kFailed,  ///< it ends; detail: QpFailure
  // As a sender.
  kTimeout,              ///< no acknowledgement; detail: retries left
  kEarlyRetry,           ///< likewise, for longer than usual
  kProbe,                ///< no answer for two round trips
  kResponseMissed,       ///< to a read or atomic; a later one has come
  kSequenceNakReceived,  ///< the peer misses a packet
  kNakReceived,          ///< a fatal one; detail: its syndrome
  kRnrNakReceived,       ///< the peer has no receive; detail: us to wait
  kCongestion,           ///< a notification; detail: kB/s that it sends from now on
  kCommandFailed,        ///< detail: Verdict
  kCommandsFlushed,
  // As a receiver.
  kSequenceNakSent,
  kNakSent,         ///< detail: its syndrome
  kRnrNakSent,      ///< it has no receive
  kOverRate,        ///< the peer sends more than it may, and waits or is not heard
  kDuplicate,       ///< a request that was executed before
  kOutOfSequence,   ///< a request behind a gap
  kAccessRefused,   ///< detail: the key
  kBadRequest,      ///< detail: transport::Count
  kReceiveMissing,  ///< UC, UD: a message is dropped
  kReceiveFailed,   ///< detail: Verdict
  kReceivesFlushed,
  kCount,
};

/// Several of a kind that follow each other are one.
struct QpEvent {
  Time first{};
  std::uint32_t lasted_ms = 0;  ///< until the last of them
  std::uint32_t count = 0;
  std::uint32_t detail = 0;  ///< of the last
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

/// One word, for programs.
const char* name_of(QpEventKind kind);
/// For people, without time and count.
std::string text_of(const QpEvent& event);

}  // namespace softhca::engine
