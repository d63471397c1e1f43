// The session memory of one process: a header page, a doorbell ring, then its VCB pages. One memfd
// made and sealed by the daemon (session segment, received with the HELLO reply).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/command.hpp"

namespace softhca::abi {

inline constexpr std::uint64_t kSessionMagic = 0x31616368'74666f73;  ///< "softhca1"
inline constexpr std::uint32_t kAbiVersion = 4;
inline constexpr std::uint32_t kMaxVcbsPerSession = 64;
inline constexpr std::uint32_t kDoorbellEntries = 256;
inline constexpr std::size_t kPageBytes = 4096;

/// "The send queue of this pair holds commands up to, not including, `sequence`" (mechanism B1).
struct Doorbell {
  std::uint32_t qpn;  ///< 24 bits; above them a DoorbellCause
  std::uint32_t sequence;
};
static_assert(sizeof(Doorbell) == 8);

/// Why a process rings a doorbell, and does not hand the commands over in VCBs.
enum class DoorbellCause : std::uint8_t {
  kOther,
  kNoVcb,  ///< too few of its VCBs were free
  kChain,  ///< they are too many at once
  kCount,
};
inline constexpr unsigned kDoorbellCauseShift = 24;

constexpr Doorbell make_doorbell(std::uint32_t qpn, std::uint32_t sequence, DoorbellCause cause) {
  return {qpn | static_cast<std::uint32_t>(cause) << kDoorbellCauseShift, sequence};
}
constexpr std::uint32_t qpn_of(const Doorbell& doorbell) {
  return doorbell.qpn & ((1u << kDoorbellCauseShift) - 1);
}
/// kOther also for causes that are not known.
constexpr DoorbellCause cause_of(const Doorbell& doorbell) {
  const auto cause = static_cast<DoorbellCause>(doorbell.qpn >> kDoorbellCauseShift);
  return cause < DoorbellCause::kCount ? cause : DoorbellCause::kOther;
}

/// Line 0 is written by the tenant only, line 1 by the engine only.
struct SessionHeader {
  // Line 0.
  /// Bit i is turned over by the tenant each time it hands VCB i to the engine. VCB i is the
  /// tenant's own while bit i of `active` equals bit i of `released`. seq_cst by the tenant,
  /// because it next reads `parked`; acquire by the engine.
  alignas(64) std::atomic<std::uint64_t> active;
  /// Doorbells written so far. Writer: tenant (seq_cst, as above); engine reads with acquire.
  std::atomic<std::uint32_t> doorbell_producer;

  // Line 1.
  /// Bit i is turned over by the engine when it has done with VCB i. Writer: engine (release).
  alignas(64) std::atomic<std::uint64_t> released;
  /// Doorbells taken so far. Writer: engine (release).
  std::atomic<std::uint32_t> doorbell_consumer;
  /// 1: the engine does not poll this session; after posting, write to the wake eventfd.
  /// Writer: engine (seq_cst).
  std::atomic<std::uint32_t> parked;

  // Line 2: set before the memory is handed over; but for `granted` it never changes.
  alignas(64) std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t vcbs;  ///< pages, whether granted or not; informative, the HELLO reply decides
  /// Bit i: VCB i may be used; the lowest ones, at most `vcbs`. It changes while the process runs,
  /// and none is taken away that the engine finds handed over. So a process looks again after it
  /// has turned `active` over (both seq_cst): a VCB that is gone by then it withdraws, and rings a
  /// doorbell. Writer: engine (seq_cst), seldom: that is why it is not in line 1.
  std::atomic<std::uint64_t> granted;
};
static_assert(sizeof(SessionHeader) == 192);

/// One virtual collect buffer: a page, the command at its start (mechanism C1).
struct VcbPage {
  std::uint8_t command[kCommandBytes];
  alignas(64) std::uint8_t unused[128];
  /// Segments written so far: bit i = bytes 8i..8i+7 of `command`; with the segment that holds
  /// the length also the bits of all segments this command does not use (C2). kExplicitKick asks
  /// for a kick although bits are missing, kWithdrawn for none at all. Writer: tenant (release; 0
  /// before a new command, or kVirtualKick; the last store of a command handed over before it was
  /// whole: seq_cst, as for `active`); engine reads with acquire.
  alignas(64) std::atomic<std::uint64_t> scoreboard;
  std::uint8_t rest[kPageBytes - 456];
};
static_assert(sizeof(VcbPage) == kPageBytes);
static_assert(offsetof(VcbPage, scoreboard) == 448);

inline constexpr std::uint64_t kAllSegments = (std::uint64_t{1} << kSegments) - 1;
inline constexpr std::uint64_t kExplicitKick = std::uint64_t{1} << 63;
/// The tenant has handed the VCB over and does not finish the command: what was collected of it is
/// dropped, and the VCB comes back.
inline constexpr std::uint64_t kWithdrawn = std::uint64_t{1} << 62;
/// The VCB was handed over before it was written: the last piece is the kick. Informative.
inline constexpr std::uint64_t kVirtualKick = std::uint64_t{1} << 61;

/// Bits of the segments that a command with `payload_bytes` of payload leaves unused.
constexpr std::uint64_t unused_segments(std::uint32_t payload_bytes) {
  const std::uint32_t used =
      (kCommandHeaderBytes + payload_bytes + kSegmentBytes - 1) / kSegmentBytes;
  return used >= kSegments ? 0 : kAllSegments & ~((std::uint64_t{1} << used) - 1);
}

/// Bits of the header segments that a command like this leaves out: the scoreboard mask (C1). In
/// the command they are zero. Depends on the segment with the length alone.
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
