// Which 8-byte segments of a command have arrived (mechanisms C1 to C3).
#pragma once

#include <cstdint>

#include "abi/session.hpp"

namespace softhca::collect {

/// Bit n stands for bytes 8n..8n+7 of the command: 40 bits. A bit of the mask says that the
/// segment need not arrive.
class Scoreboard {
 public:
  static constexpr std::uint64_t kAll = abi::kAllSegments;
  /// The segment that carries the length of the payload.
  static constexpr std::uint64_t kLengthSegment = 1;

  constexpr Scoreboard() = default;
  constexpr explicit Scoreboard(std::uint64_t mask) : mask_(mask & kAll) {}

  /// Says which segments need not arrive.
  constexpr void set_mask(std::uint64_t mask) { mask_ = mask & kAll; }
  /// Records segments; bits beyond the 40th do not count.
  constexpr void add(std::uint64_t bits) { bits_ |= bits & kAll; }
  /// Scoreboard OR mask is all ones: time for the virtual kick.
  constexpr bool complete() const { return (bits_ | mask_) == kAll; }
  constexpr bool has_length() const { return (bits_ & kLengthSegment) != 0; }
  constexpr std::uint64_t bits() const { return bits_; }
  constexpr std::uint64_t mask() const { return mask_; }

 private:
  std::uint64_t bits_ = 0;
  std::uint64_t mask_ = 0;
};

}  // namespace softhca::collect
