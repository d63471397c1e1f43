// SPDX-License-Identifier: Apache-2.0

// Packets of the requests that are answered by responses: reads, atomics, atomic writes, flushes
// (InfiniBand specification, volume 1, 9.4.4, 9.4.5, annex A19).
//
// A read of 2^31 bytes has 2^23 packets at MTU 256, too many for PSN arithmetic to separate from
// old ones. It is split into parts, each a read of its own on the wire.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {

inline constexpr std::uint32_t kReadPartPackets = 1u << 20;

/// Returns the number of parts of a read with `packets` response packets.
constexpr std::uint32_t read_parts(std::uint32_t packets) {
  return (packets - 1) / kReadPartPackets + 1;
}

/// Returns one beyond the last response packet of the part with packet `index`.
constexpr std::uint32_t read_part_end(std::uint32_t packets, std::uint32_t index) {
  return std::min(packets, (index / kReadPartPackets + 1) * kReadPartPackets);
}

/// Fills in opcode and extended headers of the request for response packets [index, end) of
/// `packets`. They lie in one part.
inline void fill_read_or_atomic(wire::Headers& h, const Request& r, std::uint32_t packets,
                                std::uint32_t index, std::uint32_t end, std::uint32_t mtu_shift) {
  h.opcode = wire::raw(request_opcode(r.kind, true, true));
  h.rkey = r.rkey;
  h.remote_addr = r.remote_addr;
  if (r.kind == RequestKind::kRead) {
    const std::uint32_t from = index << mtu_shift;
    h.remote_addr += from;
    h.dma_length = (end == packets ? r.length : end << mtu_shift) - from;
  } else if (r.kind == RequestKind::kAtomicWrite) {
    h.dma_length = r.length;
  } else if (r.kind == RequestKind::kFlush) {
    h.dma_length = static_cast<std::uint32_t>(r.compare_add);
    h.flush = static_cast<std::uint32_t>(r.swap);
  } else {
    // The addend of fetch-and-add travels in the swap field (9.2.8).
    h.swap_add = r.kind == RequestKind::kCompareSwap ? r.swap : r.compare_add;
    h.compare = r.kind == RequestKind::kCompareSwap ? r.compare_add : 0;
  }
}

}  // namespace softhca::transport
