// SPDX-License-Identifier: Apache-2.0

// A hash table of fixed size, with numbers greater than 1 as keys. One writer at a time; find()
// needs no lock and allocates nothing. It starts as zeros, so that a static table uses no memory
// before its first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softhca::provider {

template <typename Value, std::uint32_t kSlots>
class FixedHashTable {
 public:
  static constexpr std::uint32_t kNowhere = 0xffffffff;
  /// Some slots stay free, so that each search ends.
  static constexpr std::uint32_t kMost = kSlots / 4 * 3;

  /// Returns the place of the key, which it keeps until erased; kNowhere if absent. Lock-free.
  std::uint32_t find(std::uint64_t key) const {
    if (key <= kRemoved || empty()) return kNowhere;
    std::uint32_t place = home_of(key);
    for (std::uint32_t step = 0; step < kSlots; ++step, place = (place + 1) % kSlots) {
      const std::uint64_t here = slots_[place].key.load(std::memory_order_acquire);
      if (here == key) return place;
      if (here == kFree) break;
    }
    return kNowhere;
  }
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  std::uint32_t size() const { return count_.load(std::memory_order_relaxed); }

  /// Inserts a key. Returns its place, or kNowhere if the table is full. REQUIRES: the key is
  /// greater than 1 and absent.
  std::uint32_t insert(std::uint64_t key, const Value& value) {
    if (size() >= kMost) return kNowhere;
    std::uint32_t place = home_of(key);
    while (used(place)) place = (place + 1) % kSlots;
    slots_[place].value = value;
    slots_[place].key.store(key, std::memory_order_release);
    count_.fetch_add(1, std::memory_order_release);
    return place;
  }
  void erase(std::uint32_t place) {
    const std::uint64_t next = slots_[(place + 1) % kSlots].key.load(std::memory_order_relaxed);
    slots_[place].key.store(kRemoved, std::memory_order_release);
    count_.fetch_sub(1, std::memory_order_release);
    // Frees removed slots at the end of a search path, which need not continue behind them.
    while (next == kFree && slots_[place].key.load(std::memory_order_relaxed) == kRemoved) {
      slots_[place].key.store(kFree, std::memory_order_release);
      place = (place + kSlots - 1) % kSlots;
    }
  }
  void clear() {
    for (Slot& slot : slots_) {
      // Writes only to slots in use: a write to each slot would make the kernel provide all pages.
      if (slot.key.load(std::memory_order_relaxed) != kFree) slot.key.store(kFree);
    }
    count_.store(0, std::memory_order_release);
  }

  Value& at(std::uint32_t place) { return slots_[place].value; }
  const Value& at(std::uint32_t place) const { return slots_[place].value; }
  bool used(std::uint32_t place) const {
    return slots_[place].key.load(std::memory_order_relaxed) > kRemoved;
  }

 private:
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kRemoved = 1;  ///< a search continues behind it

  struct Slot {
    std::atomic<std::uint64_t> key{0};  ///< release by the writer, acquire by find()
    Value value{};
  };

  static std::uint32_t home_of(std::uint64_t key) {
    return static_cast<std::uint32_t>((key * 0x9e3779b97f4a7c15u >> 32) % kSlots);
  }

  std::atomic<std::uint32_t> count_{0};
  Slot slots_[kSlots]{};
};

}  // namespace softhca::provider
