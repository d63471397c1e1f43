// A string of bits with a fast "first set bit": free lists, masks of things with work. A summary
// bit above every 64-bit word says whether the word has any bit set, and so on upwards, so that a
// search reads one word per level (two levels serve 4096 bits, three 262144).
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

namespace softhca {

class BitSet {
 public:
  BitSet() = default;
  /// `bits` bits, all clear. Allocates; set-up only.
  explicit BitSet(std::uint32_t bits) : size_(bits) {
    std::uint32_t words = bits;
    do {
      words = (words + 63) / 64;
      levels_.emplace_back(words, 0);
    } while (words > 1);
  }

  std::uint32_t size() const { return size_; }

  bool test(std::uint32_t i) const {
    assert(i < size_);
    return (levels_[0][i / 64] >> (i % 64) & 1) != 0;
  }

  void set(std::uint32_t i) {
    assert(i < size_);
    for (auto& words : levels_) {
      std::uint64_t& word = words[i / 64];
      const bool had_any = word != 0;
      word |= std::uint64_t{1} << (i % 64);
      if (had_any) return;
      i /= 64;
    }
  }

  void clear(std::uint32_t i) {
    assert(i < size_);
    for (auto& words : levels_) {
      std::uint64_t& word = words[i / 64];
      word &= ~(std::uint64_t{1} << (i % 64));
      if (word != 0) return;
      i /= 64;
    }
  }

  bool any() const { return !levels_.empty() && levels_.back()[0] != 0; }

  std::optional<std::uint32_t> find_first() const {
    if (!any()) return std::nullopt;
    return descend(levels_.size(), 0);
  }

  /// The first set bit at or after `from`; `from` may be size().
  std::optional<std::uint32_t> find_next(std::uint32_t from) const {
    if (from >= size_) return std::nullopt;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::uint32_t word = from / 64;
      if (word >= levels_[level].size()) return std::nullopt;
      const std::uint64_t rest = levels_[level][word] >> (from % 64) << (from % 64);
      if (rest != 0) return descend(level, word * 64 + std::countr_zero(rest));
      from = word + 1;
    }
    return std::nullopt;
  }

 private:
  /// Bit `index` of `level` is set (for level == levels: of nothing, index 0): follows first set
  /// bits down to the string itself.
  std::uint32_t descend(std::size_t level, std::uint32_t index) const {
    while (level > 0) {
      --level;
      index = index * 64 + static_cast<std::uint32_t>(std::countr_zero(levels_[level][index]));
    }
    return index;
  }

  std::uint32_t size_ = 0;
  std::vector<std::vector<std::uint64_t>> levels_;  ///< [0] the string, [n+1] summary of [n]
};

}  // namespace softhca
