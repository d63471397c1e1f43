// SPDX-License-Identifier: Apache-2.0

// A string of bits with a fast search for the first set bit, for free lists and masks of objects
// with work. A summary bit for each 64-bit word says whether the word has a bit set. A search reads
// one summary word per 4096 bits, and then one word.
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
  /// Makes `bits` bits, all clear. Allocates; set-up only.
  explicit BitSet(std::uint32_t bits)
      : size_(bits), words_((bits + 63) / 64), summary_((words_.size() + 63) / 64) {}

  std::uint32_t size() const { return size_; }

  void set(std::uint32_t i) {
    assert(i < size_);
    words_[i / 64] |= bit(i);
    summary_[i / 4096] |= bit(i / 64);
  }

  void clear(std::uint32_t i) {
    assert(i < size_);
    if ((words_[i / 64] &= ~bit(i)) == 0) summary_[i / 4096] &= ~bit(i / 64);
  }

  bool any() const { return find_first().has_value(); }

  std::optional<std::uint32_t> find_first() const { return find_from_word(0); }

  /// Returns the first set bit at or after `from`; `from` may be size().
  std::optional<std::uint32_t> find_next(std::uint32_t from) const {
    if (from >= size_) return std::nullopt;
    const std::uint64_t rest = words_[from / 64] & from_bit(from);
    if (rest != 0) return from / 64 * 64 + trailing_zeros(rest);
    return find_from_word(from / 64 + 1);
  }

 private:
  static std::uint64_t bit(std::uint32_t i) { return std::uint64_t{1} << (i % 64); }
  static std::uint64_t from_bit(std::uint32_t i) { return ~std::uint64_t{0} << (i % 64); }
  static std::uint32_t trailing_zeros(std::uint64_t word) {
    return static_cast<std::uint32_t>(std::countr_zero(word));
  }

  std::optional<std::uint32_t> find_from_word(std::uint32_t word) const {
    std::uint64_t mask = from_bit(word);
    for (std::uint32_t s = word / 64; s < summary_.size(); ++s, mask = ~std::uint64_t{0}) {
      if ((summary_[s] & mask) == 0) continue;
      word = s * 64 + trailing_zeros(summary_[s] & mask);
      return word * 64 + trailing_zeros(words_[word]);
    }
    return std::nullopt;
  }

  std::uint32_t size_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> summary_;
};

}  // namespace softhca
