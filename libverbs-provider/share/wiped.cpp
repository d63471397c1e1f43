// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/wiped.hpp"

namespace softhca::provider {

bool WipedParts::set(std::uint32_t place, std::uint64_t begin, std::uint64_t end, bool wiped) {
  if (count_ + 2 > kMost) return false;  // a part may be split and another one added
  for (std::size_t i = 0; i < count_;) {
    Part& part = parts_[i];
    if (part.place != place || part.end <= begin || part.begin >= end) {
      ++i;
      continue;
    }
    const Part before = part;
    part = parts_[--count_];
    // The remaining parts are outside the range, so the loop skips them.
    if (before.begin < begin) parts_[count_++] = {place, before.begin, begin};
    if (before.end > end) parts_[count_++] = {place, end, before.end};
  }
  if (wiped) parts_[count_++] = {place, begin, end};
  return true;
}

void WipedParts::forget(std::uint32_t place) {
  for (std::size_t i = 0; i < count_;) {
    if (parts_[i].place == place)
      parts_[i] = parts_[--count_];
    else
      ++i;
  }
}

void WipedParts::move(std::uint32_t place, std::uint64_t offset, std::uint64_t length,
                      std::uint32_t to, std::uint64_t to_offset) {
  const std::size_t count = count_;
  for (std::size_t i = 0; i < count; ++i) {
    const Part part = parts_[i];
    const std::uint64_t first = part.begin > offset ? part.begin : offset;
    const std::uint64_t last = part.end < offset + length ? part.end : offset + length;
    if (part.place == place && first < last)
      set(to, first - offset + to_offset, last - offset + to_offset, true);
  }
}

}  // namespace softhca::provider
