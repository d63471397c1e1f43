// SPDX-License-Identifier: Apache-2.0

// A distribution of whole numbers over a wide range, with a fixed relative precision.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca {

/// Buckets are log-linear: each octave has kSteps, so that a value is known to one part in kSteps.
/// One thread writes, any thread reads (counter.hpp).
template <unsigned step_bits>
class LogHistogram {
 public:
  static constexpr unsigned kStepBits = step_bits;
  static constexpr std::uint64_t kSteps = std::uint64_t{1} << kStepBits;
  static constexpr unsigned kOctaves = 40;
  static constexpr std::size_t kBuckets = kSteps * kOctaves;

  void add(std::uint64_t value) {
    buckets_[bucket_of(value)].add();
    sum_.add(value);
  }

  std::uint64_t count() const { return count_to(kBuckets); }
  std::uint64_t sum() const { return sum_.value(); }

  /// Returns how many values below `limit` were counted. REQUIRES: `limit` is a power of two of at
  /// least kSteps.
  std::uint64_t count_below(std::uint64_t limit) const { return count_to(bucket_of(limit)); }

  /// Returns the value that a fraction `q` (0 to 1) of all values does not exceed, rounded up to
  /// the end of its bucket. 0: no values were counted.
  std::uint64_t quantile(double q) const {
    const std::uint64_t all = count();
    if (all == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(all - 1)) + 1;
    std::uint64_t seen = 0;
    std::size_t i = 0;
    while (i < kBuckets - 1 && (seen += buckets_[i].value()) < wanted) ++i;
    return last_of(i);
  }

  /// Returns the index of the bucket of a value. Values beyond the range share the last bucket.
  static constexpr std::size_t bucket_of(std::uint64_t value) {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const auto octave = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    if (octave + 1 >= kOctaves) return kBuckets - 1;
    return static_cast<std::size_t>((octave + 1) * kSteps + (value >> octave) - kSteps);
  }
  /// Returns the largest value of a bucket.
  static constexpr std::uint64_t last_of(std::size_t bucket) {
    if (bucket < kSteps) return bucket;
    const std::size_t octave = bucket / kSteps - 1;
    return ((bucket % kSteps + kSteps + 1) << octave) - 1;
  }

 private:
  std::uint64_t count_to(std::size_t end) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < end; ++i) sum += buckets_[i].value();
    return sum;
  }

  std::array<Counter, kBuckets> buckets_;
  Counter sum_;
};

using Histogram = LogHistogram<3>;
/// Resolves powers of two only, in an eighth of the memory.
using CoarseHistogram = LogHistogram<0>;

}  // namespace softhca
