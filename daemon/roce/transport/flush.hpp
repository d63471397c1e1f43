// SPDX-License-Identifier: Apache-2.0

// Flush: confirms to the requester that its earlier writes have been placed (InfiniBand
// specification, volume 1, annex A19). Memory here is globally visible as soon as it is written;
// none of it is persistent.
#pragma once

#include <cstdint>

#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::transport {

// Headers::flush.
inline constexpr std::uint32_t kFlushGlobal = 1 << 0;
inline constexpr std::uint32_t kFlushPersistent = 1 << 1;
inline constexpr std::uint32_t kFlushPlacement = 0xf;
inline constexpr unsigned kFlushSelectivityShift = 4;
inline constexpr std::uint32_t kFlushSelectivity = 0x3;
inline constexpr std::uint32_t kFlushWholeRegion = 1;

/// True if the flush covers the whole region: address and length are ignored.
constexpr bool flushes_region(std::uint32_t flush) {
  return (flush >> kFlushSelectivityShift & kFlushSelectivity) == kFlushWholeRegion;
}

/// True if the specification defines the requested flush; reserved bits are ignored.
constexpr bool is_flush(std::uint32_t flush) {
  const std::uint32_t placement = flush & kFlushPlacement;
  return placement != 0 && (placement & ~(kFlushGlobal | kFlushPersistent)) == 0 &&
         (flush >> kFlushSelectivityShift & kFlushSelectivity) <= kFlushWholeRegion;
}

struct FlushRequest {
  std::uint32_t flush;  ///< Headers::flush
  Rkey rkey;
  std::uint64_t addr;
  std::uint32_t length;  ///< bytes
};

/// REQUIRES: request.kind == RequestKind::kFlush.
constexpr FlushRequest flush_of(const Request& request) {
  return {static_cast<std::uint32_t>(request.swap), request.rkey, request.remote_addr,
          static_cast<std::uint32_t>(request.compare_add)};
}

/// Runs the checks of a responder. No region here supports a persistent flush.
inline Verdict check_flush(RemoteMemory& memory, const FlushRequest& request) {
  if (!is_flush(request.flush)) return Verdict::kRemoteInvalidRequest;
  if ((request.flush & kFlushPersistent) != 0) return Verdict::kRemoteAccess;
  const auto access =
      flushes_region(request.flush) ? RemoteAccess::kFlushRegion : RemoteAccess::kFlush;
  return memory.check_remote(request.rkey, request.addr, request.length, access);
}

}  // namespace softhca::transport
