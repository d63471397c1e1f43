// Packets on their way from softhcad to `softhcactl capture`: a ring of records in a memfd that
// both map. The engine writes, and never waits: what finds no room is counted. Nothing in it but
// `read` is the reader's to write, and the daemon believes that word as far as it makes sense.
//
// A record begins at a multiple of 8 bytes and lies in one piece. Offsets run free over 64 bits;
// the place is offset & (size - 1), the size a power of two, told with the descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softhca::abi {

/// Daemon and softhcactl of different versions meet: who finds another number than its own gives
/// up.
inline constexpr std::uint32_t kCaptureVersion = 1;
/// Interfaces of one capture. The last one has the packets for which there was no other left.
inline constexpr std::uint32_t kCaptureInterfaces = 512;
/// Where the ring begins in the memory.
inline constexpr std::uint32_t kCaptureRing = 8192;

/// At the start of the memory.
struct CaptureHeader {
  /// End of the records. Writer: engine (release); reader: softhcactl (acquire).
  alignas(64) std::atomic<std::uint64_t> written;
  /// End of what was taken out. Writer: softhcactl (release); reader: engine (acquire).
  alignas(64) std::atomic<std::uint64_t> read;
  /// Packets that found no room, by interface. Writer: engine (relaxed); reader: softhcactl.
  alignas(64) std::atomic<std::uint64_t> dropped[kCaptureInterfaces];
};
static_assert(sizeof(CaptureHeader) <= kCaptureRing);

enum class CaptureKind : std::uint16_t {
  kFiller = 0,     ///< nothing, up to the end of the ring: only `bytes` and `kind` are there
  kInterface = 1,  ///< a new interface; its name follows. Comes before its first packet
  kPacket = 2,     ///< the first bytes of a frame follow
};

enum class CaptureDirection : std::uint8_t { kInbound = 1, kOutbound = 2 };  // as in pcapng

struct CaptureRecord {
  std::uint32_t bytes;  ///< of all of it, this header and what it is filled up with included
  CaptureKind kind;
  std::uint16_t interface_id;
  std::uint32_t captured;  ///< bytes that follow
  std::uint32_t length;    ///< of the whole frame, without FCS
  std::uint64_t time;      ///< nanoseconds since 1970-01-01 00:00 UTC
  CaptureDirection direction;
  std::uint8_t remark;  ///< index of the list of remarks that was told with the descriptor; 0: none
  std::uint8_t pad[6];
};
static_assert(sizeof(CaptureRecord) == 32);

}  // namespace softhca::abi
