// SPDX-License-Identifier: Apache-2.0

// Memory that several threads register, in pieces that overlap and adjoin, and in which each has
// stripes of its own: what it writes there, by whatever region, and nothing else must be there.
#pragma once

#include <vector>

#include "tests/system/verbs/stress/memory.hpp"

namespace softhca::stress {

class Playground {
 public:
  static constexpr std::size_t kStripe = 64;

  /// For so many threads.
  explicit Playground(unsigned owners) : owners_(owners), slots_(kStripes, kStripe, kStripe) {}

  std::byte* begin() const { return slots_.at(0); }
  std::size_t bytes() const { return kStripes * kStripe; }
  unsigned owners() const { return owners_; }

 private:
  static constexpr unsigned kStripes = 1024;

  unsigned owners_;
  Slots slots_;
};

/// The stripes of one thread, and what it has put there.
class Stripes {
 public:
  Stripes(const Playground& ground, unsigned owner);

  static constexpr std::size_t kBytes = Playground::kStripe;

  /// One that lies within [begin, end), or null.
  std::byte* within(const std::byte* begin, const std::byte* end, std::uint32_t choice) const;
  /// It has been written as a whole.
  void wrote(const std::byte* stripe, std::uint64_t number);
  std::uint64_t number_of(const std::byte* stripe) const { return numbers_[index(stripe)]; }
  void check(const char* what) const;
  /// After a fault.
  void restore();
  /// Takes over what has been written with one of `numbers`.
  void adopt(const std::vector<std::uint64_t>& numbers);

 private:
  std::size_t index(const std::byte* stripe) const {
    return static_cast<std::size_t>(stripe - ground_.begin()) / kBytes / ground_.owners();
  }
  std::byte* at(std::size_t i) const {
    return ground_.begin() + (i * ground_.owners() + owner_) * kBytes;
  }

  const Playground& ground_;
  unsigned owner_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace softhca::stress
