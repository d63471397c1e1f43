// SPDX-License-Identifier: Apache-2.0

// A bounded lock-free queue from one thread to another.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace softhca {

template <class T>
class SpscRing {
 public:
  /// Makes room for at least `capacity` elements. Allocates; set-up only.
  explicit SpscRing(std::size_t capacity) : slots_(std::bit_ceil(capacity)) {}

  // --- the producer

  /// Adds an element. False: the queue is full, and nothing changed.
  bool push(T value) {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[tail & (slots_.size() - 1)] = std::move(value);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // --- the consumer

  /// Returns the oldest element, which stays until pop(); null if there is none.
  T* front() {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return nullptr;
    return &slots_[head & (slots_.size() - 1)];
  }
  /// Removes the oldest element. REQUIRES: front() was not null.
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // --- either thread; the other may change the result at once

  std::uint32_t size() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
  }
  bool empty() const { return size() == 0; }

 private:
  std::vector<T> slots_;
  alignas(64) std::atomic<std::uint32_t> head_{0};  ///< writer: consumer (release)
  alignas(64) std::atomic<std::uint32_t> tail_{0};  ///< writer: producer (release)
};

}  // namespace softhca
