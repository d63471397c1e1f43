// SPDX-License-Identifier: Apache-2.0

// Why a request, a receive or a message failed: the check that failed, and the numbers on both
// sides. Made only when a check fails.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca {

/// The check that failed. The values are part of vendor_err and do not change.
enum class RefusalCause : std::uint8_t {
  kNone = 0,
  // Memory that a key names.
  kNoRegion = 0x10,
  kRegionEnded = 0x11,  ///< ms: since it was deregistered
  kOtherDomain = 0x12,  ///< the key is of another protection domain
  kOutOfBounds = 0x13,
  kNoRight = 0x14,           ///< the region or window does not give the right
  kNoQueuePairRight = 0x15,  ///< the queue pair does not give the peer the right
  kNotMapped = 0x16,         ///< the process has not mapped it, or has ended
  kNoWindow = 0x18,
  kWindowNotBound = 0x19,
  kWindowElsewhere = 0x1a,    ///< it is bound to another queue pair, `qpn`
  kWindowRegionEnded = 0x1b,  ///< the region was deregistered or changed since it was bound
  kWindowBound = 0x1c,        ///< it is bound already, and must be invalidated first
  kWindowType = 0x1d,         ///< of type 1, which cannot be invalidated
  // Lengths.
  kReceiveTooShort = 0x20,  ///< length: of the message so far; limit: of the receive
  kMessageTooLong = 0x21,   ///< limit: the longest message
  kNotEightBytes = 0x22,    ///< length: of the list of an atomic
  kNotAligned = 0x23,       ///< address: of an atomic
  kPayloadLength = 0x24,    ///< length: payload of a packet; limit: path MTU
  // Requests.
  kOpcode = 0x30,           ///< not an operation of this type of queue pair
  kChecksum = 0x31,         ///< the command was changed while it was read
  kAddressHandle = 0x32,    ///< there is none, or it is of another protection domain
  kNoReadsOut = 0x33,       ///< max_rd_atomic is 0
  kTooManyReads = 0x34,     ///< limit: max_dest_rd_atomic of the responder
  kInlineResponse = 0x35,   ///< the response would be stored in inline data
  kPacketOrder = 0x36,      ///< a first, middle or last packet out of turn
  kNoXrcQueue = 0x37,       ///< length: number of the shared receive queue
  kFlushType = 0x38,        ///< a placement or range that does not exist
  kTooManyCommands = 0x39,  ///< limit: elements of the send queue
  // Peers.
  kNoAnswer = 0x40,
  kNoQueuePair = 0x41,             ///< its tenant has no queue pair of this number
  kQueuePairDestroyed = 0x42,      ///< ms: since then
  kProcessEnded = 0x43,            ///< ms: since then; process: which had the queue pair
  kPeerNotReady = 0x44,            ///< state: of the queue pair
  kPeerConnectedElsewhere = 0x45,  ///< qpn: to which; 0: to another address
  kPeerType = 0x46,                ///< the queue pair is of another type
  kNoTenant = 0x47,                ///< no tenant has the address now
  kNoReceive = 0x48,               ///< limit: rnr_retry
  kPeerPsn = 0x49,                 ///< psns
  kInvalidRequestNak = 0x50,
  kAccessNak = 0x51,
  kOperationNak = 0x52,
  kBadResponse = 0x53,
};

/// Where the check failed.
enum class RefusalSide : std::uint8_t {
  kCommand = 0,  ///< the queue pair's own command
  kReceive = 1,  ///< its own receive
  kServed = 2,   ///< memory or messages that its peer asked it for
  kPeer = 3,     ///< at its peer, for its command
  kFlushed = 4,  ///< nowhere: the queue pair had failed (engine::flush_error())
};

enum class RefusedOperation : std::uint8_t {
  kNone,
  kSend,
  kWrite,
  kRead,
  kAtomic,
  kAtomicWrite,
  kFlush,
  kBind,
  kInvalidate,
  kReceive,
};

/// The region or window that a key names.
struct NamedRegion {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t domain = 0;  ///< its protection domain
};

/// PSNs of a queue pair and of its peer.
struct RefusedPsns {
  Psn sent;
  Psn expected;
};

struct Refusal {
  RefusalCause cause = RefusalCause::kNone;
  RefusalSide side = RefusalSide::kCommand;
  RefusedOperation operation = RefusedOperation::kNone;
  bool has_region = false;
  bool more_follows = false;  ///< length is that of the packets that have arrived
  std::uint8_t entry = 0;     ///< index in the scatter/gather list
  std::uint8_t entries = 0;   ///< of that list; 0: the memory is not named by a list
  std::uint8_t state = 0;     ///< QpState of the peer
  std::uint8_t retries = 0;   ///< retry_cnt or rnr_retry
  std::uint32_t key = 0;
  std::uint32_t needed = 0;   ///< memory::Access bits that the operation needs
  std::uint32_t granted = 0;  ///< those that the queue pair, the region or the window gives
  std::uint32_t domain = 0;   ///< protection domain of the queue pair
  std::uint64_t address = 0;
  std::uint64_t length = 0;  ///< bytes
  std::uint64_t limit = 0;
  NamedRegion region{};  ///< if `has_region`
  // The peer.
  Qpn qpn;
  RefusedPsns psns;
  std::uint32_t process = 0;
  std::uint32_t ms = 0;
  TenantId tenant;               ///< of the peer's address
  bool has_tenant = false;       ///< false: the peer's address is of no tenant here
  bool of_other_tenant = false;  ///< the peer's tenant is not that of the queue pair
  Time at{};                     ///< of the engine's step

  constexpr explicit operator bool() const { return cause != RefusalCause::kNone; }
};

/// Returns the value of ibv_wc::vendor_err. A silent peer of another tenant is one cause: a tenant
/// does not learn which queue pairs others have.
constexpr std::uint32_t vendor_error(const Refusal& refusal) {
  if (!refusal) return 0;
  const RefusalCause cause = refusal.of_other_tenant ? RefusalCause::kNoAnswer : refusal.cause;
  return static_cast<std::uint32_t>(refusal.side) << 8 | static_cast<std::uint32_t>(cause);
}

constexpr std::uint32_t milliseconds_between(Time from, Time to) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count());
}

}  // namespace softhca
