// What is to be done with each part of a region, from what is mapped there now.
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
  kLeave,      ///< stays as it is; the daemon reaches it through /proc/<pid>/mem
  kReuse,      ///< maps a memfd of this registry already
  kForeign,    ///< maps a memfd of another registry, to be joined
  kAnonymous,  ///< whole pages of private memory, to be replaced
  kOrphan,     ///< whole pages of a memfd of ours whose handle is gone, to be replaced
};

struct Piece {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t offset;  ///< of `begin` in the memfd, where there is one
  std::uint32_t place;   ///< of that in the MemfdTable
  PieceKind kind;

  bool replaceable() const { return kind == PieceKind::kAnonymous || kind == PieceKind::kOrphan; }
};

/// Pieces in ascending order, adjoining, each within one mapping. Those to be replaced are whole
/// pages: the first and the last may reach beyond the region.
class Plan {
 public:
  /// Plans for [addr, addr+length), not empty, for the registry `owner`. Returns 0, or EFAULT if a
  /// part cannot be read, or not written where it is to be `writable`. More than kMaxMrExtents
  /// pieces: all is left as it is. REQUIRES: process lock.
  int make(std::uint64_t addr, std::uint64_t length, RegistryId owner, bool writable);

  std::span<const Piece> pieces() const { return {pieces_, count_}; }

 private:
  void consider(const Mapping& mapping);
  void consider_pages(const Mapping& mapping, PieceKind kind, std::uint32_t place);
  void look_for_allocation(const Mapping& first);
  void add(const Piece& piece);
  bool holds_this_stack(const Mapping& mapping) const;

  Piece pieces_[abi::kMaxMrExtents];
  std::size_t count_ = 0;
  bool too_many_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t at_ = 0;  ///< planned up to here
  PageRange whole_;       ///< pages that hold nothing but the region's allocation
  RegistryId owner_ = kNoRegistry;
};

}  // namespace softhca::provider
