// Responses to reads and atomics that came while one before them is missing. Their data lies in its
// place, the memory of the request, which its program may not look at before the completion; what
// is remembered is which they are.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::transport {

class EarlyResponses {
 public:
  /// From the oldest response that is missing on; what is farther ahead is not remembered.
  static constexpr std::uint32_t kSpan = 128;

  bool empty() const { return (words_[0] | words_[1]) == 0; }
  void clear() { words_.fill(0); }
  /// REQUIRES: all that were added lie within kSpan of each other.
  void add(Psn psn) { word(psn) |= bit(psn); }
  bool has(Psn psn) const { return (words_[index(psn)] & bit(psn)) != 0; }
  /// The first of [from, from + kSpan) that was added. REQUIRES: !empty(), and all that were added
  /// lie there.
  Psn first(Psn from) const {
    Psn psn = from;
    while (!has(psn)) ++psn;
    return psn;
  }
  /// `packets` from `from` on are no longer of interest.
  void forget(Psn from, std::uint32_t packets) {
    if (packets >= kSpan) return clear();
    for (; packets > 0; --packets, ++from) word(from) &= ~bit(from);
  }

 private:
  static constexpr std::uint32_t kBits = 64;

  static std::uint32_t index(Psn psn) { return psn.value() % kSpan / kBits; }
  static std::uint64_t bit(Psn psn) { return std::uint64_t{1} << psn.value() % kBits; }
  std::uint64_t& word(Psn psn) { return words_[index(psn)]; }

  std::array<std::uint64_t, kSpan / kBits> words_{};
};

}  // namespace softhca::transport
