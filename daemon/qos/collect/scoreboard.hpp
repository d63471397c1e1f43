// SPDX-License-Identifier: Apache-2.0

// Records which 8-byte segments of a command have arrived (mechanisms C1 to C3).
#pragma once

#include <cstdint>

#include "abi/session.hpp"

namespace softhca::collect {

/// Bit n stands for bytes 8n..8n+7 of the command: 40 bits. A segment need not arrive if its bit is
/// set in the mask.
class Scoreboard {
 public:
  static constexpr std::uint64_t kAll = abi::kAllSegments;
  /// The segment that carries the length of the payload.
  static constexpr std::uint64_t kLengthSegment = 1;

  constexpr Scoreboard() = default;
  constexpr explicit Scoreboard(std::uint64_t mask) : mask_(mask & kAll) {}

  /// Sets which segments need not arrive.
  constexpr void set_mask(std::uint64_t mask) { mask_ = mask & kAll; }
  /// Records segments; ignores bits beyond the 40th.
  constexpr void add(std::uint64_t bits) { bits_ |= bits & kAll; }
  /// True if scoreboard OR mask is all ones: time for the virtual kick.
  constexpr bool complete() const { return (bits_ | mask_) == kAll; }
  constexpr bool has_length() const { return (bits_ & kLengthSegment) != 0; }
  constexpr std::uint64_t bits() const { return bits_; }
  constexpr std::uint64_t mask() const { return mask_; }

 private:
  std::uint64_t bits_ = 0;
  std::uint64_t mask_ = 0;
};

}  // namespace softhca::collect
