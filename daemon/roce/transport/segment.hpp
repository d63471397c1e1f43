// SPDX-License-Identifier: Apache-2.0

// Segmentation of requests into packets, common to RC and UC requesters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

/// Longest message (InfiniBand specification 9.4.3, C9-8).
inline constexpr std::uint32_t kMaxMessageBytes = std::uint32_t{1} << 31;

constexpr bool is_atomic(RequestKind k) {
  return k == RequestKind::kCompareSwap || k == RequestKind::kFetchAdd;
}
constexpr bool is_write(RequestKind k) {
  return k == RequestKind::kWrite || k == RequestKind::kWriteImm;
}
/// True if the request changes 8 bytes at once and must not be executed twice.
constexpr bool is_indivisible(RequestKind k) {
  return is_atomic(k) || k == RequestKind::kAtomicWrite;
}
/// True if the request returns data.
constexpr bool stores_response(RequestKind k) { return k == RequestKind::kRead || is_atomic(k); }
/// True if the response is that of an empty read.
constexpr bool awaits_empty_response(RequestKind k) {
  return k == RequestKind::kAtomicWrite || k == RequestKind::kFlush;
}
/// True if the request is answered by its own responses, not by an acknowledgement.
constexpr bool awaits_response(RequestKind k) {
  return stores_response(k) || awaits_empty_response(k);
}
/// True if the request takes a receive work request at the peer.
constexpr bool draws_receive(RequestKind k) {
  return k == RequestKind::kSend || k == RequestKind::kSendImm ||
         k == RequestKind::kSendInvalidate || k == RequestKind::kWriteImm;
}

constexpr bool is_send(RequestKind k) { return draws_receive(k) && k != RequestKind::kWriteImm; }

/// Returns the counter of a request at its responder; none for a send.
constexpr std::optional<Count> request_count(RequestKind k) {
  if (is_write(k)) return Count::kWriteRequests;
  if (k == RequestKind::kRead) return Count::kReadRequests;
  if (is_indivisible(k)) return Count::kAtomicRequests;
  return std::nullopt;
}
/// Same for a packet of a request.
constexpr std::optional<Count> request_count(wire::OpcodeMask mask) {
  if (mask.has_any(wire::kAtomic | wire::kAtomicWrite)) return Count::kAtomicRequests;
  if (mask.has_all(wire::kRead)) return Count::kReadRequests;
  if (mask.has_all(wire::kWrite)) return Count::kWriteRequests;
  return std::nullopt;
}

/// Returns the number of packets of a message of `length` bytes; an empty one has one packet.
constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu_shift) {
  if (length == 0) return 1;
  return ((length - 1) >> mtu_shift) + 1;
}

/// Returns the payload bytes of packet `index` of a message. REQUIRES: index < packets_of(length).
constexpr std::uint32_t bytes_of(std::uint32_t length, std::uint32_t index,
                                 std::uint32_t mtu_shift) {
  return std::min(std::uint32_t{1} << mtu_shift, length - (index << mtu_shift));
}

/// By RequestKind and position: middle, first, last, only.
inline constexpr wire::Opcode kRequestOpcodes[][4] = {
    {wire::Opcode::kRcSendMiddle, wire::Opcode::kRcSendFirst, wire::Opcode::kRcSendLast,
     wire::Opcode::kRcSendOnly},
    {wire::Opcode::kRcSendMiddle, wire::Opcode::kRcSendFirst, wire::Opcode::kRcSendLastImm,
     wire::Opcode::kRcSendOnlyImm},
    {wire::Opcode::kRcSendMiddle, wire::Opcode::kRcSendFirst, wire::Opcode::kRcSendLastInvalidate,
     wire::Opcode::kRcSendOnlyInvalidate},
    {wire::Opcode::kRcWriteMiddle, wire::Opcode::kRcWriteFirst, wire::Opcode::kRcWriteLast,
     wire::Opcode::kRcWriteOnly},
    {wire::Opcode::kRcWriteMiddle, wire::Opcode::kRcWriteFirst, wire::Opcode::kRcWriteLastImm,
     wire::Opcode::kRcWriteOnlyImm},
    {wire::Opcode::kRcReadRequest, wire::Opcode::kRcReadRequest, wire::Opcode::kRcReadRequest,
     wire::Opcode::kRcReadRequest},
    {wire::Opcode::kRcCompareSwap, wire::Opcode::kRcCompareSwap, wire::Opcode::kRcCompareSwap,
     wire::Opcode::kRcCompareSwap},
    {wire::Opcode::kRcFetchAdd, wire::Opcode::kRcFetchAdd, wire::Opcode::kRcFetchAdd,
     wire::Opcode::kRcFetchAdd},
    {wire::Opcode::kRcAtomicWrite, wire::Opcode::kRcAtomicWrite, wire::Opcode::kRcAtomicWrite,
     wire::Opcode::kRcAtomicWrite},
    {wire::Opcode::kRcFlush, wire::Opcode::kRcFlush, wire::Opcode::kRcFlush,
     wire::Opcode::kRcFlush},
};

/// Returns the RC opcode of the packet at this position of a send or write, or of the request
/// packet of a read or atomic. UC opcodes are the same plus 0x20.
constexpr wire::Opcode request_opcode(RequestKind kind, bool first, bool last) {
  return kRequestOpcodes[static_cast<unsigned>(kind)][(first ? 1 : 0) + (last ? 2 : 0)];
}

/// Fills in opcode and extended headers of packet `index` of a send or write of `packets` packets.
inline void fill_segment(wire::Headers& h, const Request& r, std::uint32_t index,
                         std::uint32_t packets) {
  const bool first = index == 0;
  const bool last = index + 1 == packets;
  h.opcode = wire::raw(request_opcode(r.kind, first, last));
  if (first && is_write(r.kind)) {
    h.remote_addr = r.remote_addr;
    h.rkey = r.rkey;
    h.dma_length = r.length;
  }
  if (!last) return;
  h.solicited = r.solicited && draws_receive(r.kind);
  if (r.kind == RequestKind::kSendImm || r.kind == RequestKind::kWriteImm) h.imm = r.imm;
  if (r.kind == RequestKind::kSendInvalidate) h.invalidate = r.rkey;
}

/// Returns the payload of packet `index` of a send or write.
inline PayloadSource segment_payload(const Request& r, std::uint32_t index,
                                     std::uint32_t mtu_shift) {
  PayloadSource p;
  if (r.length == 0) return p;
  p.from = PayloadSource::From::kRequest;
  p.pcb = r.pcb;
  p.offset = index << mtu_shift;
  p.length = bytes_of(r.length, index, mtu_shift);
  return p;
}

}  // namespace softhca::transport
