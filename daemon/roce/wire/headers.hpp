// SPDX-License-Identifier: Apache-2.0

// The transport headers of RoCE v2 as values. The codec (codec.hpp) encodes and decodes them;
// transport state machines use only these.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::wire {

/// AETH syndrome values (InfiniBand specification 9.7.5.1.2, 9.7.5.2.8).
inline constexpr std::uint8_t kSyndromeAck = 0x00;  ///< | credit code, 0x1f = no limit
inline constexpr std::uint8_t kSyndromeNoCreditLimit = 0x1f;
inline constexpr std::uint8_t kSyndromeRnr = 0x20;  ///< | timer code
inline constexpr std::uint8_t kSyndromeSequence = 0x60;
inline constexpr std::uint8_t kSyndromeInvalidRequest = 0x61;
inline constexpr std::uint8_t kSyndromeRemoteAccess = 0x62;
inline constexpr std::uint8_t kSyndromeRemoteOperation = 0x63;

/// Headers of one packet behind UDP: the base transport header and the extended headers that the
/// opcode (opcode.hpp) has; the others are zero. Host byte order, except imm.
struct Headers {
  std::uint8_t opcode = 0;
  bool solicited = false;
  bool migrated = true;
  bool fecn = false;
  bool becn = false;
  bool ack_request = false;
  std::uint8_t pad = 0;  ///< bytes of padding behind the payload, 0..3; encoding ignores it
  std::uint16_t pkey = 0xffff;
  Qpn destination;
  Psn psn;

  // RETH, AtomicETH
  std::uint64_t remote_addr = 0;
  Rkey rkey;
  std::uint32_t dma_length = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  // AETH, AtomicAckETH
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< 24 bits
  std::uint64_t original = 0;
  // DETH
  std::uint32_t qkey = 0;
  Qpn source;
  // ImmDt, IETH
  std::uint32_t imm = 0;  ///< network byte order, passed unchanged
  Rkey invalidate;
  // FETH
  std::uint32_t flush = 0;  ///< bits 0 to 3: placement; 4 and 5: selectivity; others: reserved
  // XRCETH
  std::uint32_t xrc_srq = 0;  ///< number of the shared receive queue, 24 bits
};

}  // namespace softhca::wire
