// SPDX-License-Identifier: Apache-2.0

// Packets on their way from softhcad to `softhcactl capture`: a ring of records in a memfd that
// both map. The engine writes and never waits; it counts packets for which the ring has no room.
// The reader writes only `read`, and the daemon validates that word.
//
// A record begins at a multiple of 8 bytes and is contiguous. Offsets run free over 64 bits; the
// position in the ring is offset & (size - 1). The size is a power of two, sent with the
// descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softhca::abi {

/// Daemon and softhcactl may have different versions. The reader gives up if the number is not its
/// own.
inline constexpr std::uint32_t kCaptureVersion = 1;
/// Interfaces of one capture. The last one has the packets of all interfaces beyond the limit.
inline constexpr std::uint32_t kCaptureInterfaces = 512;
/// Offset of the ring in the memory.
inline constexpr std::uint32_t kCaptureRing = 8192;

/// At the start of the memory.
struct CaptureHeader {
  /// End of the records. Writer: engine (release); reader: softhcactl (acquire).
  alignas(64) std::atomic<std::uint64_t> written;
  /// End of the records taken out. Writer: softhcactl (release); reader: engine (acquire).
  alignas(64) std::atomic<std::uint64_t> read;
  /// Packets without room in the ring, by interface. Writer: engine (relaxed); reader: softhcactl.
  alignas(64) std::atomic<std::uint64_t> dropped[kCaptureInterfaces];
};
static_assert(sizeof(CaptureHeader) <= kCaptureRing);

enum class CaptureKind : std::uint16_t {
  kFiller = 0,     ///< padding up to the end of the ring; it has only `bytes` and `kind`
  kInterface = 1,  ///< a new interface; its name follows. Precedes its first packet
  kPacket = 2,     ///< the first bytes of a frame follow
};

enum class CaptureDirection : std::uint8_t { kInbound = 1, kOutbound = 2 };  // as in pcapng

struct CaptureRecord {
  std::uint32_t bytes;  ///< of the whole record, including this header and padding
  CaptureKind kind;
  std::uint16_t interface_id;
  std::uint32_t captured;  ///< bytes that follow this header
  std::uint32_t length;    ///< of the whole frame, without FCS
  std::uint64_t time;      ///< nanoseconds since 1970-01-01 00:00 UTC
  CaptureDirection direction;
  std::uint8_t remark;  ///< index in the list of remarks sent with the descriptor; 0: none
  std::uint8_t pad[6];
};
static_assert(sizeof(CaptureRecord) == 32);

}  // namespace softhca::abi
