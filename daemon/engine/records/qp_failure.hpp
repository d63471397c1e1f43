// SPDX-License-Identifier: Apache-2.0

// Why queue pairs fail.
#pragma once

#include <cstdint>

#include "daemon/base/refusal.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::engine {

/// The cause that put a queue pair into the error state: the status of a command or receive, or the
/// cause of an asynchronous event. The values are part of vendor_err and do not change.
enum class QpFailure : std::uint8_t {
  kNone,  ///< the program requested the error state
  // The command that caused the failure has this status.
  kLocalLength,
  kMalformedCommand,
  kLocalProtection,
  kBadResponse,
  kWindowBind,
  kRemoteInvalidRequest,
  kRemoteAccess,
  kRemoteOperation,
  kRetryExceeded,
  kRnrRetryExceeded,
  // As a receiver.
  kReceiveNotWritten,
  kPeerInvalidRequest,
  kPeerAccess,
  kDrewTooMuch,  ///< from its shared receive queue
  // Actions of its process.
  kDoorbell,
  kSessionMemory,
  kReceiveRing,
  kCompletionQueueOverflow,
  kFatal,  ///< none of these
  kCrash,  ///< the adapter crashed
  kCount,
};

/// Returns the failure for a command that completed with `verdict`. REQUIRES: not kOk.
QpFailure failure_of(Verdict verdict);
/// Returns ibv_wc::vendor_err of a completion that is flushed after the failure.
constexpr std::uint32_t flush_error(QpFailure failure) {
  return static_cast<std::uint32_t>(RefusalSide::kFlushed) << 8 |
         static_cast<std::uint32_t>(failure);
}
/// True if the check that failed belongs to this failure.
bool explains(const Refusal& refusal, QpFailure failure);
/// Returns one word, for labels.
const char* name_of(QpFailure failure);
/// Returns a sentence for people.
const char* text_of(QpFailure failure);

}  // namespace softhca::engine
