// SPDX-License-Identifier: Apache-2.0

// Numbers that one thread (the engine) writes and any thread reads, by a relaxed load and a relaxed
// store. Both compile to plain moves, without the lock prefix of fetch_add.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca {

/// REQUIRES: one writer at a time. A reader sees some value that the writer stored, never a torn
/// one. It learns nothing about the order with other numbers. Copying is for set-up only.
template <class Rep>
class BasicCounter {
  static_assert(std::atomic<Rep>::is_always_lock_free);

 public:
  BasicCounter() = default;
  BasicCounter(const BasicCounter& other) : value_(other.value()) {}
  BasicCounter& operator=(const BasicCounter& other) {
    set(other.value());
    return *this;
  }

  Rep value() const { return value_.load(std::memory_order_relaxed); }

  void set(Rep v) { value_.store(v, std::memory_order_relaxed); }
  void add(Rep n = 1) { set(static_cast<Rep>(value() + n)); }
  void subtract(Rep n = 1) { set(static_cast<Rep>(value() - n)); }
  /// Sets the value to `v` if it is larger (high-water marks).
  void raise_to(Rep v) {
    if (v > value()) set(v);
  }

 private:
  std::atomic<Rep> value_{0};
};

using Counter = BasicCounter<std::uint64_t>;  ///< only grows
using Gauge = BasicCounter<std::uint32_t>;    ///< goes up and down

/// Adds one to the gauge, and raises its high-water mark to the sum.
inline void add_one(Gauge& gauge, Gauge& high_water) {
  const std::uint32_t sum = gauge.value() + 1;
  gauge.set(sum);
  high_water.raise_to(sum);
}

}  // namespace softhca
