// SPDX-License-Identifier: Apache-2.0

// The session memory of one process: a header page, a doorbell ring, then its VCB pages. It is one
// memfd that the daemon makes, sends with the HELLO reply (session segment), and seals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/command.hpp"
#include "abi/version.hpp"

namespace softhca::abi {

inline constexpr std::uint64_t kSessionMagic = 0x31616368'74666f73;  ///< "softhca1"
inline constexpr std::uint32_t kMaxVcbsPerSession = 64;
inline constexpr std::uint32_t kDoorbellEntries = 256;
inline constexpr std::size_t kPageBytes = 4096;

/// "The send queue of this queue pair holds commands up to, not including, `sequence`" (mechanism
/// B1).
struct Doorbell {
  std::uint32_t qpn;  ///< 24 bits; above them a DoorbellCause
  std::uint32_t sequence;
};
static_assert(sizeof(Doorbell) == 8);

/// Why a process rings a doorbell instead of handing the commands over in VCBs.
enum class DoorbellCause : std::uint8_t {
  kOther,
  kNoVcb,  ///< too few VCBs of the process were free
  kChain,  ///< the chain is too long for VCBs
  kCount,
};
inline constexpr unsigned kDoorbellCauseShift = 24;

constexpr Doorbell make_doorbell(std::uint32_t qpn, std::uint32_t sequence, DoorbellCause cause) {
  return {qpn | static_cast<std::uint32_t>(cause) << kDoorbellCauseShift, sequence};
}
constexpr std::uint32_t qpn_of(const Doorbell& doorbell) {
  return doorbell.qpn & ((1u << kDoorbellCauseShift) - 1);
}
/// Returns the cause; kOther for unknown values.
constexpr DoorbellCause cause_of(const Doorbell& doorbell) {
  const auto cause = static_cast<DoorbellCause>(doorbell.qpn >> kDoorbellCauseShift);
  return cause < DoorbellCause::kCount ? cause : DoorbellCause::kOther;
}

/// Only the tenant writes line 0, and only the engine writes line 1.
struct SessionHeader {
  // Line 0.
  /// The tenant inverts bit i each time it hands VCB i to the engine. The tenant owns VCB i while
  /// bit i of `active` equals bit i of `released`. Writer: tenant (seq_cst, because it next reads
  /// `parked`); reader: engine (acquire).
  alignas(64) std::atomic<std::uint64_t> active;
  /// Doorbells written so far. Writer: tenant (seq_cst, as above); reader: engine (acquire).
  std::atomic<std::uint32_t> doorbell_producer;

  // Line 1.
  /// The engine inverts bit i when it is done with VCB i. Writer: engine (release).
  alignas(64) std::atomic<std::uint64_t> released;
  /// Doorbells taken so far. Writer: engine (release).
  std::atomic<std::uint32_t> doorbell_consumer;
  /// 1: the engine does not poll this session, so the tenant writes to the wake eventfd after it
  /// has posted. Writer: engine (seq_cst).
  std::atomic<std::uint32_t> parked;

  // Line 2: the daemon sets it before it hands the memory over. The atomics may change later.
  alignas(64) std::uint64_t magic;
  std::uint32_t version;  ///< of the protocol, as in the HELLO reply
  std::uint32_t vcbs;     ///< VCB pages, granted or not; informative, the HELLO reply decides
  /// Bit i: the tenant may use VCB i. The VCBs granted are the lowest ones, at most `vcbs`. The
  /// engine changes the number while the process runs, but takes no VCB away that it finds handed
  /// over. So the process reads `granted` again after it has inverted a bit of `active` (both
  /// seq_cst). If the VCB is no longer granted, the process withdraws it and rings a doorbell.
  /// Writer: engine (seq_cst), rarely; so it is not in line 1.
  std::atomic<std::uint64_t> granted;
  /// The processor on which the engine runs, plus 1; 0: unknown. A hint. Writer: engine (relaxed),
  /// when it moves.
  std::atomic<std::uint32_t> engine_cpu;
};
static_assert(sizeof(SessionHeader) == 192);

/// One virtual collect buffer: a page with the command at its start (mechanism C1).
struct VcbPage {
  std::uint8_t command[kCommandBytes];
  alignas(64) std::uint8_t unused[128];
  /// Segments written so far: bit i = bytes 8i..8i+7 of `command`. The bit of the segment with the
  /// length comes with the bits of all segments that the command does not use (C2). kExplicitKick
  /// asks for a kick although bits are missing; kWithdrawn asks for none. Writer: tenant (release).
  /// Before a new command it stores 0 or kVirtualKick; the last store of a command handed over
  /// before it was complete is seq_cst, as for `active`. Reader: engine (acquire).
  alignas(64) std::atomic<std::uint64_t> scoreboard;
  std::uint8_t rest[kPageBytes - 456];
};
static_assert(sizeof(VcbPage) == kPageBytes);
static_assert(offsetof(VcbPage, scoreboard) == 448);

inline constexpr std::uint64_t kAllSegments = (std::uint64_t{1} << kSegments) - 1;
inline constexpr std::uint64_t kExplicitKick = std::uint64_t{1} << 63;
/// The tenant handed the VCB over and does not finish the command. The engine drops the part
/// collected and returns the VCB.
inline constexpr std::uint64_t kWithdrawn = std::uint64_t{1} << 62;
/// The tenant handed the VCB over before it wrote it, and the last segment is the kick.
/// Informative.
inline constexpr std::uint64_t kVirtualKick = std::uint64_t{1} << 61;

/// Returns the bits of the segments that a command with `payload_bytes` of payload does not use.
constexpr std::uint64_t unused_segments(std::uint32_t payload_bytes) {
  const std::uint32_t used =
      (kCommandHeaderBytes + payload_bytes + kSegmentBytes - 1) / kSegmentBytes;
  return used >= kSegments ? 0 : kAllSegments & ~((std::uint64_t{1} << used) - 1);
}

/// Returns the bits of the header segments that such a command omits: the scoreboard mask (C1). In
/// the command they are zero. The result depends only on the segment with the length.
constexpr std::uint64_t needless_segments(const CommandHeader& header) {
  constexpr std::uint64_t kRemote = 1 << 2, kKeyAndImm = 1 << 3, kOperands = 0b11 << 4;
  const std::uint64_t address = (header.flags & kCommandAddressed) != 0 ? 0 : 0b11 << 6;
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kSend:
      return kRemote | kKeyAndImm | kOperands | address;
    case Opcode::kSendWithImm:
    case Opcode::kSendWithInvalidate:
    case Opcode::kLocalInvalidate:
      return kRemote | kOperands | address;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteWithImm:
    case Opcode::kRdmaRead:
    case Opcode::kAtomicWrite:
      return kOperands | address;
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
    case Opcode::kFlush:
    case Opcode::kBindWindow:
      return address;
  }
  return 0;
}

inline constexpr std::size_t kDoorbellOffset = kPageBytes;
inline constexpr std::size_t kVcbOffset = 2 * kPageBytes;
static_assert(kDoorbellEntries * sizeof(Doorbell) <= kPageBytes);

constexpr std::size_t session_bytes(std::uint32_t vcbs) { return kVcbOffset + vcbs * kPageBytes; }

}  // namespace softhca::abi
