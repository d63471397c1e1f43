// SPDX-License-Identifier: Apache-2.0

// A fixed number of objects, made at set-up and named by index. A handle also carries the
// generation of its slot, so that the pool detects references to a freed object.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"

namespace softhca {

struct PoolHandle {
  std::uint32_t index = kNoIndex;
  std::uint32_t generation = 0;
  constexpr bool operator==(const PoolHandle&) const = default;
};

/// T is default-constructible. Its objects live as long as the pool and keep their contents from
/// one use to the next, so the caller of allocate() initialises what it needs.
template <class T>
class FixedPool {
 public:
  /// Makes `capacity` free slots. Allocates; set-up only.
  explicit FixedPool(std::uint32_t capacity) : slots_(capacity) {
    for (std::uint32_t i = capacity; i-- > 0;) push_free(i);
  }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t in_use() const { return in_use_; }

  /// Returns the slot freed last, because it is still in the cache; none if all are in use.
  std::optional<PoolHandle> allocate() {
    if (free_ == kNoIndex) return std::nullopt;
    Slot& s = slots_[free_];
    const PoolHandle handle{std::exchange(free_, s.next_free), ++s.generation};
    ++in_use_;
    return handle;
  }

  /// Frees a slot, which makes all handles to it stale. REQUIRES: the slot is in use.
  void free(std::uint32_t index) {
    assert(is_used(index));
    ++slots_[index].generation;
    push_free(index);
    --in_use_;
  }

  bool is_used(std::uint32_t index) const { return slots_[index].generation % 2 == 1; }

  /// Returns the handle of a slot in use.
  PoolHandle handle(std::uint32_t index) const {
    assert(is_used(index));
    return {index, slots_[index].generation};
  }

  /// Returns the object, or null for a handle that is stale or was never given out.
  T* find(PoolHandle h) {
    if (h.index >= slots_.size() || !is_used(h.index)) return nullptr;
    return slots_[h.index].generation == h.generation ? &slots_[h.index].value : nullptr;
  }

  T& operator[](std::uint32_t index) { return slots_[index].value; }
  const T& operator[](std::uint32_t index) const { return slots_[index].value; }

 private:
  struct Slot {
    T value{};
    std::uint32_t generation = 0;  ///< odd: in use
    std::uint32_t next_free = kNoIndex;
  };

  void push_free(std::uint32_t index) {
    slots_[index].next_free = free_;
    free_ = index;
  }

  std::vector<Slot> slots_;
  std::uint32_t free_ = kNoIndex;
  std::uint32_t in_use_ = 0;
};

}  // namespace softhca
