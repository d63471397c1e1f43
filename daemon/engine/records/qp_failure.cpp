// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/qp_failure.hpp"

#include <array>
#include <cstddef>

namespace softhca::engine {
namespace {

struct Words {
  const char* name;
  const char* text;
};

constexpr std::array<Words, static_cast<std::size_t>(QpFailure::kCount)> kWords{{
    {"none", ""},
    {"local_length", softhca::name_of(Verdict::kLocalLength)},
    {"malformed_command", softhca::name_of(Verdict::kLocalQpOperation)},
    {"local_protection", softhca::name_of(Verdict::kLocalProtection)},
    {"bad_response", softhca::name_of(Verdict::kBadResponse)},
    {"window_bind", softhca::name_of(Verdict::kWindowBind)},
    {"remote_invalid_request", softhca::name_of(Verdict::kRemoteInvalidRequest)},
    {"remote_access", softhca::name_of(Verdict::kRemoteAccess)},
    {"remote_operation", softhca::name_of(Verdict::kRemoteOperation)},
    {"retry_exceeded", softhca::name_of(Verdict::kRetryExceeded)},
    {"rnr_retry_exceeded", softhca::name_of(Verdict::kRnrRetryExceeded)},
    {"receive_not_written", "a receive could not be written"},
    {"peer_invalid_request", "its peer sent an invalid request"},
    {"peer_access", "its peer named memory it may not reach"},
    {"drew_too_much", "it drew too much from its shared receive queue"},
    {"doorbell",
     "its doorbell names commands beyond its send queue (memory overwritten?); restart the "
     "program"},
    {"session_memory",
     "its session memory holds invalid values (overwritten?); restart the program"},
    {"receive_ring",
     "its receive ring names more receives than it has (memory overwritten?); restart the "
     "program"},
    {"completion_queue_overflow", "its completion queue overflowed"},
    {"fatal", "fatal error"},
    {"crash", "the adapter crashed twice while it served the queue pair"},
}};

}  // namespace

QpFailure failure_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLocalLength:
      return QpFailure::kLocalLength;
    case Verdict::kLocalQpOperation:
      return QpFailure::kMalformedCommand;
    case Verdict::kLocalProtection:
      return QpFailure::kLocalProtection;
    case Verdict::kBadResponse:
      return QpFailure::kBadResponse;
    case Verdict::kWindowBind:
      return QpFailure::kWindowBind;
    case Verdict::kRemoteInvalidRequest:
      return QpFailure::kRemoteInvalidRequest;
    case Verdict::kRemoteAccess:
      return QpFailure::kRemoteAccess;
    case Verdict::kRemoteOperation:
      return QpFailure::kRemoteOperation;
    case Verdict::kRetryExceeded:
      return QpFailure::kRetryExceeded;
    case Verdict::kRnrRetryExceeded:
      return QpFailure::kRnrRetryExceeded;
    case Verdict::kOk:
    case Verdict::kBusy:
    case Verdict::kFlushed:
    case Verdict::kReceiverNotReady:
      break;
  }
  return QpFailure::kFatal;
}

bool explains(const Refusal& refusal, QpFailure failure) {
  if (!refusal) return false;
  switch (failure) {
    case QpFailure::kReceiveNotWritten:
      return refusal.side == RefusalSide::kReceive;
    case QpFailure::kPeerAccess:
      return refusal.side == RefusalSide::kServed;
    case QpFailure::kPeerInvalidRequest:  // a message too long for its receive is one
      return refusal.side == RefusalSide::kServed || refusal.side == RefusalSide::kReceive;
    case QpFailure::kLocalLength:
    case QpFailure::kMalformedCommand:
    case QpFailure::kLocalProtection:
    case QpFailure::kWindowBind:
      return refusal.side == RefusalSide::kCommand;
    case QpFailure::kBadResponse:
    case QpFailure::kRemoteInvalidRequest:
    case QpFailure::kRemoteAccess:
    case QpFailure::kRemoteOperation:
    case QpFailure::kRetryExceeded:
    case QpFailure::kRnrRetryExceeded:
      return refusal.side == RefusalSide::kPeer;
    default:
      return false;
  }
}

const char* name_of(QpFailure failure) { return kWords[static_cast<std::size_t>(failure)].name; }
const char* text_of(QpFailure failure) { return kWords[static_cast<std::size_t>(failure)].text; }

}  // namespace softhca::engine
