// SPDX-License-Identifier: Apache-2.0

// Rings between one process of a tenant and the daemon. Each shared word names its writer and its
// memory order. Counters run free over 32 bits; the slot is counter & (entries - 1), and entries is
// a power of two. Both sides get the geometry (entries, stride) by the control socket and keep it
// in private memory, never in shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/session.hpp"

namespace softhca::abi {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Location of a ring: `bytes` at `offset` in memory segment `segment` of the session. The memfd of
/// the segment came with the reply that announced it. 64-byte aligned.
struct RingLocation {
  std::uint32_t segment;
  std::uint32_t bytes;
  std::uint64_t offset;
};
static_assert(sizeof(RingLocation) == 16);

// Send queue: `entries` commands of send_stride() bytes, without a header. The tenant writes an
// element, then announces it by a VCB or a doorbell. It may reuse the element once it has polled
// the completion that covers its sequence number. A SendRingTail follows the last element.

/// A cache line behind the commands of a send queue.
struct alignas(64) SendRingTail {
  /// Space for a doorbell for which the engine has no room (mechanism B4). Writer and reader:
  /// engine. A tenant that writes here loses its own doorbells.
  Doorbell overflow;
  /// When the command that was sampled last (is_sampled()) was posted, as post_stamp(); 0: none
  /// was. Writer: tenant (relaxed); reader: engine (relaxed), for the tenant's histogram of stages.
  std::atomic<std::uint64_t> posted;
  std::uint8_t pad[48];
};
static_assert(sizeof(SendRingTail) == 64);

/// Returns the bytes from the first element of a send queue to its SendRingTail.
constexpr std::size_t send_ring_tail(std::uint32_t entries, std::uint32_t stride) {
  return (std::size_t{entries} * stride + 63) / 64 * 64;
}

/// The provider samples one of so many commands, from its posting to its end. The number is prime,
/// so that it does not align with a program that does something at every 64th command.
inline constexpr std::uint32_t kSampledEvery = 61;
constexpr bool is_sampled(std::uint32_t sequence) { return sequence % kSampledEvery == 0; }

/// The lower bits of the command's sequence number above the lower bits of the time in ns of
/// CLOCK_MONOTONIC, which last 18 minutes. Both are in one word, so that it is never half written.
inline constexpr unsigned kPostTimeBits = 40;
constexpr std::uint64_t post_stamp(std::uint32_t sequence, std::uint64_t ns) {
  return std::uint64_t{sequence} << kPostTimeBits |
         (ns & ((std::uint64_t{1} << kPostTimeBits) - 1));
}

/// Receive queue and shared receive queue: this header, then `entries` elements of receive_stride()
/// bytes. The tenant keeps the producer counter at most `entries` ahead of the completions that it
/// has polled, so the slot that it writes is free.
struct alignas(64) ReceiveRingHeader {
  /// Writer: tenant (release); also the daemon once, when the queue moves to another ring, with the
  /// elements that wait. Reader: engine (acquire).
  std::atomic<std::uint32_t> producer;
  std::uint8_t pad[60];
};
static_assert(sizeof(ReceiveRingHeader) == 64);

/// A cache line behind the elements of a shared receive queue.
struct alignas(64) ReceiveRingTail {
  /// Elements taken so far. Writer: engine (relaxed). The engine reads it only when it continues
  /// what an earlier engine has begun: a tenant that writes here loses its own receives.
  std::atomic<std::uint32_t> taken;
  std::atomic<std::uint32_t> limit;  ///< that is armed; 0: none is. Writer and reader: as above
  /// Not 0: the queue has moved to this ring from another. Writer and reader: as above
  std::atomic<std::uint32_t> moved;
  std::uint8_t pad[52];
};
static_assert(sizeof(ReceiveRingTail) == 64);

/// Returns the bytes from the start of a receive queue to its ReceiveRingTail.
constexpr std::size_t receive_ring_tail(std::uint32_t entries, std::uint32_t stride) {
  return (sizeof(ReceiveRingHeader) + std::size_t{entries} * stride + 63) / 64 * 64;
}

/// CompletionRingHeader::arm: which completions cause the next completion event. The tenant sets
/// bits, and the engine clears all of them with each event.
inline constexpr std::uint32_t kArmNone = 0;
inline constexpr std::uint32_t kArmSolicited = 1 << 0;
inline constexpr std::uint32_t kArmAny = 1 << 1;
/// Set by the engine: it owes an event that an earlier arming has asked for.
inline constexpr std::uint32_t kArmOwed = 1 << 2;

/// Completion queue: this header, then `entries` CompletionElements.
struct alignas(64) CompletionRingHeader {
  std::atomic<std::uint32_t> consumer;  ///< writer: tenant (release); reader: engine (acquire)
  /// Writer: tenant (fetch_or, seq_cst) before it polls again, not while it asks for another ring;
  /// engine (seq_cst). Reader: engine, after the seq_cst fence that ends a batch.
  std::atomic<std::uint32_t> arm;
  /// Number of the request by which the engine has moved the queue to this ring; 0: it has not.
  /// Writer: engine. Reader: the daemon, when it continues what an earlier one has begun. A tenant
  /// that writes here may lose its own completions.
  std::atomic<std::uint32_t> moved_by;
  std::uint8_t pad[52];
};
static_assert(sizeof(CompletionRingHeader) == 64);

/// CompletionElement::opcode, with the values of enum ibv_wc_opcode.
enum class CompletionOpcode : std::uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveRdmaWithImm = 129,
};

/// CompletionElement::status, with the values of enum ibv_wc_status.
enum class CompletionStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushError = 5,
  kBindError = 6,
  kBadResponseError = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequestError = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceededError = 12,
  kRnrRetryExceededError = 13,
};

/// CompletionElement::flags, with the values of enum ibv_wc_flags, and kCompletionIpv4.
inline constexpr std::uint8_t kCompletionGrh = 1 << 0;
inline constexpr std::uint8_t kCompletionWithImm = 1 << 1;
inline constexpr std::uint8_t kCompletionWithInvalidate = 1 << 3;
/// With kCompletionGrh: the routing header is an IPv4 header. ibv_wc_flags has no such value; the
/// provider passes it to programs in ibv_wc::sl.
inline constexpr std::uint8_t kCompletionIpv4 = 1 << 7;

/// CompletionElement::is_receive. The daemon leaves 2 to the tenant.
inline constexpr std::uint8_t kCompletionOfReceive = 1;
inline constexpr std::uint8_t kCompletionOfXrcReceive = 3;  ///< of an XRC shared receive queue

/// One completion, 32 bytes. The engine writes it, `owner` last (release). The element at counter c
/// is valid if the phase bit of `owner` equals phase_of(c, entries).
struct CompletionElement {
  std::uint32_t qpn;
  std::uint32_t index;  ///< send: sequence number of the command; receive: ReceiveElement::index
  std::uint32_t byte_len;
  /// Immediate data (network byte order) or invalidated key. If `status` is an error: vendor_err.
  std::uint32_t imm;
  std::uint64_t timestamp;  ///< ns, CLOCK_MONOTONIC of the engine's batch
  std::uint8_t status;      ///< CompletionStatus
  std::uint8_t opcode;      ///< CompletionOpcode
  std::uint8_t flags;       ///< kCompletion*
  std::uint8_t is_receive;  ///< kCompletionOf*, also when status is an error; 0: a send completed
  /// Bits 0..23: source queue pair (UD) or, with kCompletionOfXrcReceive, the number of the shared
  /// receive queue. Bit 31: phase.
  std::atomic<std::uint32_t> owner;
};
static_assert(sizeof(CompletionElement) == 32);
static_assert(offsetof(CompletionElement, owner) == 28);

inline constexpr std::uint32_t kPhaseBit = 1u << 31;

/// New memory is zero, so the bit is set in the first lap.
constexpr std::uint32_t phase_of(std::uint32_t counter, std::uint32_t entries) {
  return (counter & entries) == 0 ? kPhaseBit : 0;
}

}  // namespace softhca::abi
