// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/page_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace softhca::guest {

void PageRanges::reset(const abi::MemoryPlace& place) {
  free_.clear();
  free_bytes_ = 0;
  if (place.bytes != 0) give(place);
}

std::optional<std::uint64_t> PageRanges::take(std::uint64_t bytes) {
  const auto found =
      std::ranges::find_if(free_, [&](const auto& range) { return range.second >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const std::uint64_t offset = found->first, rest = found->second - bytes;
  free_.erase(found);
  if (rest != 0) free_[offset + bytes] = rest;
  free_bytes_ -= bytes;
  return offset;
}

std::vector<abi::MemoryPlace> PageRanges::take_free_of(const abi::MemoryPlace& range) {
  std::vector<abi::MemoryPlace> taken;
  const std::uint64_t end = range.offset + range.bytes;
  auto at = free_.upper_bound(range.offset);
  if (at != free_.begin()) --at;
  while (at != free_.end() && at->first < end) {
    const std::uint64_t free_begin = at->first, free_end = at->first + at->second;
    const std::uint64_t from = std::max(free_begin, range.offset), to = std::min(free_end, end);
    if (from >= to) {
      ++at;
      continue;
    }
    free_.erase(at);
    if (free_begin < from) free_[free_begin] = from - free_begin;
    if (to < free_end) free_[to] = free_end - to;
    free_bytes_ -= to - from;
    taken.push_back({from, to - from});
    at = free_.lower_bound(to);
  }
  return taken;
}

void PageRanges::give(const abi::MemoryPlace& range) {
  std::uint64_t offset = range.offset, bytes = range.bytes;
  free_bytes_ += bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace softhca::guest
