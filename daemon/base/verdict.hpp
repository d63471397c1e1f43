// SPDX-License-Identifier: Apache-2.0

// Errors on the data path (others: assert for bugs, Expected for set-up). A verdict says how a work
// request or a request packet ended. One function each maps it to a NAK code (transport), a
// completion status (engine) or an errno.
#pragma once

#include <cstdint>

namespace softhca {

enum class Verdict : std::uint8_t {
  kOk,
  kBusy,                  ///< not an error: a resource is exhausted for the moment, try again
  kLocalLength,           ///< message longer than the receive buffer, or than allowed
  kLocalQpOperation,      ///< malformed work request
  kLocalProtection,       ///< a local scatter/gather entry that its key does not cover
  kFlushed,               ///< the queue pair left the states in which it works
  kBadResponse,           ///< a response that does not fit the request
  kWindowBind,            ///< a memory window that cannot be bound as requested
  kRemoteInvalidRequest,  ///< NAK 0x61
  kRemoteAccess,          ///< NAK 0x62
  kRemoteOperation,       ///< NAK 0x63
  kRetryExceeded,         ///< no acknowledgement after all retries
  kRnrRetryExceeded,      ///< receiver not ready after all retries
  kReceiverNotReady,      ///< responder side only: no receive work request
};

constexpr const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kBusy:
      return "busy";
    case Verdict::kLocalLength:
      return "local length error";
    case Verdict::kLocalQpOperation:
      return "malformed command";
    case Verdict::kLocalProtection:
      return "local protection error";
    case Verdict::kFlushed:
      return "flushed";
    case Verdict::kBadResponse:
      return "bad response";
    case Verdict::kWindowBind:
      return "memory window bind error";
    case Verdict::kRemoteInvalidRequest:
      return "remote invalid request error";
    case Verdict::kRemoteAccess:
      return "remote access error";
    case Verdict::kRemoteOperation:
      return "remote operation error";
    case Verdict::kRetryExceeded:
      return "transport retries exceeded";
    case Verdict::kRnrRetryExceeded:
      return "receiver-not-ready retries exceeded";
    case Verdict::kReceiverNotReady:
      return "receiver not ready";
  }
  return "unknown";
}

}  // namespace softhca
