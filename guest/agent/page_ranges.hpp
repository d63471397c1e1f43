// SPDX-License-Identifier: Apache-2.0

// Which parts of a memory are free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "abi/control.hpp"

namespace softhca::guest {

class PageRanges {
 public:
  /// Makes all of the place free, and nothing else.
  void reset(const abi::MemoryPlace& place);
  /// Takes the first free range that is large enough. Returns its offset; nothing: there is none.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  /// Takes what is free of a range.
  std::vector<abi::MemoryPlace> take_free_of(const abi::MemoryPlace& range);
  /// Makes a range free. REQUIRES: it was taken.
  void give(const abi::MemoryPlace& range);
  std::uint64_t free_bytes() const { return free_bytes_; }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  ///< bytes by offset; no two ranges touch
  std::uint64_t free_bytes_ = 0;
};

}  // namespace softhca::guest
