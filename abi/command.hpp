// SPDX-License-Identifier: Apache-2.0

// The command (work queue element, WQE). post_send writes it into the send queue and, if the
// process has a free virtual collect buffer (VCB), also into that VCB at the same offsets.
//
// A command is a 64-byte header and up to 256 bytes of payload (mechanism C1). The payload holds
// either scatter/gather entries or inline data. All fields are in host byte order except `imm`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::abi {

inline constexpr std::size_t kCommandHeaderBytes = 64;
inline constexpr std::size_t kCommandPayloadBytes = 256;
inline constexpr std::size_t kCommandBytes = kCommandHeaderBytes + kCommandPayloadBytes;
inline constexpr std::size_t kSegmentBytes = 8;  ///< what one scoreboard bit covers
inline constexpr unsigned kSegments = kCommandBytes / kSegmentBytes;
static_assert(kSegments == 40);

/// Values as in enum ibv_wr_opcode.
enum class Opcode : std::uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendWithInvalidate = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

/// CommandHeader::flags.
inline constexpr std::uint8_t kCommandFence = 1 << 0;
inline constexpr std::uint8_t kCommandSignaled = 1 << 1;
inline constexpr std::uint8_t kCommandSolicited = 1 << 2;
inline constexpr std::uint8_t kCommandInline = 1 << 3;
inline constexpr std::uint8_t kCommandAddressed = 1 << 4;  ///< the last 16 header bytes count

struct CommandHeader {
  std::uint8_t opcode;          ///< Opcode
  std::uint8_t flags;           ///< kCommand*
  std::uint16_t payload_bytes;  ///< bytes of payload in use: 16 per entry, or inline length; <= 256
  std::uint32_t qpn;
  std::uint32_t sequence;        ///< send queue sequence number, free-running from 0
  std::uint32_t checksum;        ///< mechanism C5 (abi/checksum.hpp); 0 = not given
  std::uint64_t remote_addr;     ///< write, read, atomics, flush; bind: that of the window
  std::uint32_t rkey;            ///< as remote_addr; bind: the new key; invalidation: the key
  std::uint32_t imm;             ///< immediate data, network byte order; bind: ibv_access_flags
  std::uint64_t compare_add;     ///< atomics; bind: bytes of the window; flush: bytes
  std::uint64_t swap;            ///< compare and swap; bind: key of the region; flush: flush_word()
  std::uint32_t remote_qpn;      ///< UD
  std::uint32_t remote_qkey;     ///< UD
  std::uint32_t address_handle;  ///< UD: handle of the address handle
  std::uint32_t remote_srq;      ///< XRC: number of the shared receive queue, 24 bits
};
static_assert(sizeof(CommandHeader) == kCommandHeaderBytes);

/// CommandHeader::swap of a flush, in the format of the packet's FETH. The arguments are of enum
/// ibv_placement_type and enum ibv_selectivity_level.
constexpr std::uint32_t flush_word(std::uint32_t placement, std::uint32_t selectivity) {
  return placement | selectivity << 4;
}

struct ScatterGather {
  std::uint64_t addr;
  std::uint32_t length;  ///< bytes
  std::uint32_t lkey;
};
static_assert(sizeof(ScatterGather) == 16);

inline constexpr std::uint32_t kMaxSge = kCommandPayloadBytes / sizeof(ScatterGather);
inline constexpr std::uint32_t kMaxInline = kCommandPayloadBytes;

/// Returns the bytes from one send queue element to the next: the header and room for the larger of
/// entries and inline data, in whole cache lines.
constexpr std::uint32_t send_stride(std::uint32_t max_sge, std::uint32_t max_inline) {
  const std::uint32_t entries = max_sge * std::uint32_t{sizeof(ScatterGather)};
  const std::uint32_t payload = entries > max_inline ? entries : max_inline;
  return (kCommandHeaderBytes + payload + 63) / 64 * 64;
}

/// Receive work queue element. The completion returns `index`.
struct ReceiveElement {
  std::uint32_t index;
  std::uint32_t num_sge;
  std::uint64_t reserved;
  // ScatterGather entries follow
};
static_assert(sizeof(ReceiveElement) == 16);

constexpr std::uint32_t receive_stride(std::uint32_t max_sge) {
  return std::uint32_t{sizeof(ReceiveElement)} + max_sge * std::uint32_t{sizeof(ScatterGather)};
}

}  // namespace softhca::abi
