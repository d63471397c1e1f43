// SPDX-License-Identifier: Apache-2.0

// The free parts of a range of bytes, from which pieces are taken (first fit). Set-up path only.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <vector>

namespace softhca::memory {

class Gaps {
 public:
  /// Nothing is free.
  Gaps() = default;
  /// [begin, end) is free.
  Gaps(std::size_t begin, std::size_t end) : gaps_{{begin, end}} {}

  bool has_room(std::size_t bytes) const {
    return std::any_of(gaps_.begin(), gaps_.end(),
                       [&](const Gap& gap) { return gap.bytes() >= bytes; });
  }
  /// True if exactly [begin, end) is free.
  bool is_whole(std::size_t begin, std::size_t end) const {
    return gaps_.size() == 1 && gaps_.front().begin == begin && gaps_.front().end == end;
  }

  /// Takes the lowest part of this size. Nothing: there is none.
  std::optional<std::size_t> take(std::size_t bytes) {
    const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
                                  [&](const Gap& each) { return each.bytes() >= bytes; });
    if (gap == gaps_.end()) return std::nullopt;
    const std::size_t begin = gap->begin;
    gap->begin += bytes;
    if (gap->bytes() == 0) gaps_.erase(gap);
    return begin;
  }
  /// Takes [begin, begin + bytes). False: a byte of it is not free.
  bool take_at(std::size_t begin, std::size_t bytes) {
    const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const Gap& each) {
      return each.begin <= begin && begin < each.end;
    });
    if (gap == gaps_.end() || bytes > gap->end - begin) return false;
    const Gap before{gap->begin, begin};
    const Gap behind{begin + bytes, gap->end};
    auto at = gaps_.erase(gap);
    if (behind.bytes() != 0) at = gaps_.insert(at, behind);
    if (before.bytes() != 0) gaps_.insert(at, before);
    return true;
  }
  /// Frees [begin, begin + bytes). REQUIRES: it was taken.
  void give_back(std::size_t begin, std::size_t bytes) {
    auto next = std::find_if(gaps_.begin(), gaps_.end(),
                             [&](const Gap& each) { return each.begin > begin; });
    assert(next == gaps_.end() || begin + bytes <= next->begin);
    next = gaps_.insert(next, {begin, begin + bytes});
    const auto join_with_next = [&](auto gap) {
      const auto after = gap + 1;
      if (after == gaps_.end() || gap->end != after->begin) return;
      gap->end = after->end;
      gaps_.erase(after);
    };
    join_with_next(next);
    if (next != gaps_.begin()) join_with_next(next - 1);
  }

 private:
  struct Gap {
    std::size_t begin;
    std::size_t end;
    std::size_t bytes() const { return end - begin; }
  };
  std::vector<Gap> gaps_;  ///< ascending, never adjoining
};

}  // namespace softhca::memory
