// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softhca::provider {

void Plan::add(const Piece& piece) {
  if (piece.begin >= piece.end) return;
  if (count_ != 0 && piece.kind == PieceKind::kLeave) {
    Piece& last = pieces_[count_ - 1];
    if (last.kind == PieceKind::kLeave) {
      last.end = piece.end;
      return;
    }
  }
  if (count_ == abi::kMaxMrExtents) {
    too_many_ = true;
    return;
  }
  pieces_[count_++] = piece;
}

bool Plan::holds_this_stack(const Mapping& mapping) const {
  // A forked child would share a shared stack with its parent until the child's handler runs, and
  // the handler runs on that stack.
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return mapping.begin <= here && here < mapping.end;
}

/// Leaves pages that the region fills only in part. Other threads may make the kernel write to the
/// rest of such a page, and a forked child may find it half changed.
void Plan::consider_pages(const Mapping& mapping, PieceKind kind, std::uint32_t place) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = std::max(mapping.begin, begin_);
  const std::uint64_t end = std::min(mapping.end, end_);
  std::uint64_t first = (begin + page - 1) / page * page;
  std::uint64_t last = end / page * page;
  if (whole_.begin != whole_.end) {
    first = begin / page * page;
    last = (end + page - 1) / page * page;
  }
  if (first >= last) return add({begin, end, 0, 0, PieceKind::kLeave});
  add({begin, first, 0, 0, PieceKind::kLeave});
  add({first, last, mapping.offset + (first - mapping.begin), place, kind});
  add({last, end, 0, 0, PieceKind::kLeave});
}

void Plan::look_for_allocation(const Mapping& first) {
  const PageRange range = pages_of_allocation(begin_);
  if (range.begin >= first.begin && range.end >= end_) whole_ = range;
}

void Plan::consider_memfd(const Mapping& mapping, const MemfdPart& part) {
  MemfdTable& memfds = MemfdTable::instance();
  const Memfd& memfd = memfds.at(part.place);
  if (memfd.owner == kNoRegistry && !memfd.is_piece())
    return consider_pages(mapping, PieceKind::kOrphan, part.place);
  const bool own = memfd.owner == owner_ || memfds.joined(part.place, owner_) != nullptr;
  add({part.begin, part.end, part.offset, part.place,
       own ? PieceKind::kReuse : PieceKind::kForeign});
}

void Plan::consider(const Mapping& mapping) {
  const Mapping wanted = clip(mapping, begin_, end_);
  Piece leave{wanted.begin, wanted.end, 0, 0, PieceKind::kLeave};
  if (!mapping.readable || !mapping.writable || mapping.executable) return add(leave);
  MemfdPart part{};
  // A mapping of a virtual machine's memory may have several pieces, and other memory between them.
  while (MemfdTable::instance().next_part(wanted, leave.begin, part)) {
    add({leave.begin, part.begin, 0, 0, PieceKind::kLeave});
    consider_memfd(mapping, part);
    leave.begin = part.end;
  }
  const bool ours_to_replace =
      mapping.kind == MappingKind::kAnonymous && !mapping.shared && !holds_this_stack(mapping);
  if (!ours_to_replace) return add(leave);
  consider_pages(mapping, PieceKind::kAnonymous, MemfdTable::kNowhere);
}

int Plan::make(std::uint64_t addr, std::uint64_t length, RegistryId owner, bool writable) {
  count_ = 0;
  too_many_ = false;
  whole_ = {};
  begin_ = at_ = addr;
  end_ = addr + length;
  owner_ = owner;
  const Piece all{begin_, end_, 0, 0, PieceKind::kLeave};
  MapsReader maps(addr);
  if (!maps.ok()) {
    add(all);
    return 0;
  }
  Mapping mapping;
  while (at_ < end_ && maps.next(mapping)) {
    if (mapping.begin > at_ || !mapping.readable) return EFAULT;
    if (writable && !mapping.writable) return EFAULT;
    if (at_ == begin_) look_for_allocation(mapping);
    consider(mapping);
    at_ = std::min(mapping.end, end_);
  }
  if (at_ != end_) return EFAULT;
  if (too_many_) {
    count_ = 0;
    add(all);
  }
  return 0;
}

}  // namespace softhca::provider
