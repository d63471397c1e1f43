// SPDX-License-Identifier: Apache-2.0

// Objects of a process, by the small handles with which the process names them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace softhca {

template <class T>
class HandleTable {
 public:
  static constexpr std::uint32_t kMaxHandles = 1 << 24;

  std::uint32_t size() const { return used_; }
  /// Returns a number above all handles.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }

  std::uint32_t add(std::unique_ptr<T> object) {
    ++used_;
    while (!free_.empty() && slots_[free_.back()] != nullptr) free_.pop_back();
    if (!free_.empty()) {
      const std::uint32_t handle = free_.back();
      free_.pop_back();
      slots_[handle] = std::move(object);
      return handle;
    }
    slots_.push_back(std::move(object));
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  /// True if an earlier table may have given an object this handle, and none has it here.
  bool has_place(std::uint32_t handle) const {
    return handle < kMaxHandles && find(handle) == nullptr;
  }
  /// Adds an object under the handle that an earlier table gave it. Returns it. Null: the handle is
  /// in use, or too large for a table of so many objects as there may be.
  T* add(std::unique_ptr<T> object, std::uint32_t handle) {
    if (!has_place(handle)) return nullptr;
    // The handle stays in `free_` until its turn.
    for (std::uint32_t next = slots(); next <= handle; ++next) {
      slots_.emplace_back();
      if (next != handle) free_.push_back(next);
    }
    ++used_;
    slots_[handle] = std::move(object);
    return slots_[handle].get();
  }

  /// Returns an object. Null: unknown handle.
  T* find(std::uint32_t handle) const {
    return handle < slots_.size() ? slots_[handle].get() : nullptr;
  }

  std::unique_ptr<T> remove(std::uint32_t handle) {
    if (find(handle) == nullptr) return nullptr;
    --used_;
    free_.push_back(handle);
    return std::move(slots_[handle]);
  }

  /// Removes and returns the object with the highest handle. Null: the table is empty.
  std::unique_ptr<T> remove_last() {
    while (!slots_.empty() && slots_.back() == nullptr) slots_.pop_back();
    if (slots_.empty()) return nullptr;
    std::unique_ptr<T> last = std::move(slots_.back());
    slots_.pop_back();
    free_.clear();  // may name slots that no longer exist
    --used_;
    return last;
  }

  /// Calls f(handle, object) for each object.
  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t handle = 0; handle < slots_.size(); ++handle)
      if (slots_[handle]) f(handle, *slots_[handle]);
  }

 private:
  std::uint32_t used_ = 0;
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<std::uint32_t> free_;  ///< may also have handles in use
};

}  // namespace softhca
