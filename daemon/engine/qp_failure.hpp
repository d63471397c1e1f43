// Why queue pairs fail.
#pragma once

#include <cstdint>

#include "daemon/base/verdict.hpp"

namespace softhca::engine {

/// What ended a queue pair: the status of a command or receive, or what an asynchronous event
/// tells of.
enum class QpFailure : std::uint8_t {
  kNone,
  // The command that failed it has this status.
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
  kDatagramNotWritten,
  kPeerInvalidRequest,
  kPeerAccess,
  kDrewTooMuch,  ///< from its shared receive queue
  // What its process did.
  kDoorbell,
  kSessionMemory,
  kReceiveRing,
  kCompletionQueueOverflow,
  kFatal,  ///< none of these
  kCount,
};

/// Of a command that ended with `verdict`. REQUIRES: not kOk.
QpFailure failure_of(Verdict verdict);
/// One word, for labels.
const char* name_of(QpFailure failure);
/// For people.
const char* text_of(QpFailure failure);

}  // namespace softhca::engine
