// SPDX-License-Identifier: Apache-2.0

// Parts of memfds that children should find empty (MADV_WIPEONFORK), which the kernel supports only
// for private memory. Guarded by the process lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::provider {

class WipedParts {
 public:
  static constexpr std::size_t kMost = 1024;

  /// Adds [begin, end) of a memfd, by its place in the MemfdTable, or removes it. False: there
  /// would be too many parts.
  bool set(std::uint32_t place, std::uint64_t begin, std::uint64_t end, bool wiped);
  /// Removes the parts of a memfd that no longer exists.
  void forget(std::uint32_t place);
  /// Calls visit(begin, end) for each part of [begin, end) of the memfd.
  template <typename Visit>
  void for_each(std::uint32_t place, std::uint64_t begin, std::uint64_t end, Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const Part& part = parts_[i];
      const std::uint64_t first = part.begin > begin ? part.begin : begin;
      const std::uint64_t last = part.end < end ? part.end : end;
      if (part.place == place && first < last) visit(first, last);
    }
  }
  /// Records that [offset, offset+length) of one memfd is now [to_offset, ...) of another.
  void move(std::uint32_t place, std::uint64_t offset, std::uint64_t length, std::uint32_t to,
            std::uint64_t to_offset);
  void clear() { count_ = 0; }

 private:
  struct Part {
    std::uint32_t place;
    std::uint64_t begin;
    std::uint64_t end;
  };
  Part parts_[kMost]{};
  std::size_t count_ = 0;
};

}  // namespace softhca::provider
