// SPDX-License-Identifier: Apache-2.0

// A command that comes in pieces of whole segments.
#pragma once

#include <cassert>
#include <cstring>
#include <span>

#include "daemon/qos/collect/collect_controller.hpp"

namespace softhca::collect {

/// Scoreboard bits of `segments` segments from `first` on. REQUIRES: they are among the 40.
constexpr std::uint64_t range(unsigned first, unsigned segments) {
  return ((std::uint64_t{1} << segments) - 1) << first;
}

/// Puts private bytes at a segment and records it. REQUIRES: piece.size() is a multiple of a
/// segment and ends within the command.
inline Progress add_piece(CollectController& controller, PcbPool& pool, PcbId pcb,
                          unsigned first_segment, std::span<const std::byte> piece) {
  const std::size_t offset = first_segment * abi::kSegmentBytes;
  assert(piece.size() % abi::kSegmentBytes == 0 && offset + piece.size() <= abi::kCommandBytes);
  std::memcpy(pool.pcb(pcb).bytes() + offset, piece.data(), piece.size());
  const auto segments = static_cast<unsigned>(piece.size() / abi::kSegmentBytes);
  return controller.add(pcb, range(first_segment, segments));
}

}  // namespace softhca::collect
