// SPDX-License-Identifier: Apache-2.0

// Plans the sharing of each part of a region, from its current mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/control.hpp"
#include "libverbs-provider/share/chunks.hpp"
#include "libverbs-provider/share/maps.hpp"
#include "libverbs-provider/share/memfds.hpp"

namespace softhca::provider {

enum class PieceKind : std::uint8_t {
  kLeave,      ///< stays; the daemon reaches it through /proc/<pid>/mem
  kReuse,      ///< already maps a memfd of this registry
  kForeign,    ///< maps a memfd of another registry, to be joined, or a piece, to be adopted
  kAnonymous,  ///< whole pages of private memory, to be replaced
  kOrphan,     ///< whole pages of a memfd with no handle any more, to be replaced
};

struct Piece {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t offset;  ///< of `begin` in the memfd, if there is one
  std::uint32_t place;   ///< of that memfd in the MemfdTable
  PieceKind kind;

  bool replaceable() const { return kind == PieceKind::kAnonymous || kind == PieceKind::kOrphan; }
};

/// Adjoining pieces in ascending order, each within one mapping. Pieces to be replaced are whole
/// pages, so the first and the last may extend beyond the region.
class Plan {
 public:
  /// Plans for the non-empty range [addr, addr+length) and the registry `owner`. Returns 0, or
  /// EFAULT if a part is not readable or, with `writable`, not writable. If there are more than
  /// kMaxMrExtents pieces, all of them are left. REQUIRES: process lock.
  int make(std::uint64_t addr, std::uint64_t length, RegistryId owner, bool writable);

  std::span<const Piece> pieces() const { return {pieces_, count_}; }

 private:
  void consider(const Mapping& mapping);
  void consider_memfd(const Mapping& mapping, const MemfdPart& part);
  void consider_pages(const Mapping& mapping, PieceKind kind, std::uint32_t place);
  void look_for_allocation(const Mapping& first);
  void add(const Piece& piece);
  bool holds_this_stack(const Mapping& mapping) const;

  Piece pieces_[abi::kMaxMrExtents];
  std::size_t count_ = 0;
  bool too_many_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t at_ = 0;  ///< end of the part that is planned
  PageRange whole_;       ///< pages that hold only the allocation of the region
  RegistryId owner_ = kNoRegistry;
};

}  // namespace softhca::provider
