// SPDX-License-Identifier: Apache-2.0

// Responses to reads and atomics that arrived while an earlier one is missing. Their data is
// already in the memory of the request, which the program may not read before the completion. Only
// their PSNs are recorded here.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::transport {

class EarlyResponses {
 public:
  /// From the oldest missing response on; responses farther ahead are not recorded.
  static constexpr std::uint32_t kSpan = 128;

  bool empty() const { return (words_[0] | words_[1]) == 0; }
  void clear() { words_.fill(0); }
  /// REQUIRES: all recorded PSNs lie within kSpan of each other.
  void add(Psn psn) { word(psn) |= bit(psn); }
  bool has(Psn psn) const { return (words_[index(psn)] & bit(psn)) != 0; }
  /// Returns the first recorded PSN of [from, from + kSpan). REQUIRES: !empty(), and all recorded
  /// PSNs lie in that range.
  Psn first(Psn from) const {
    Psn psn = from;
    while (!has(psn)) ++psn;
    return psn;
  }
  /// Drops `packets` PSNs from `from` on.
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
