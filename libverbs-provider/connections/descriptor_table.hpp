// SPDX-License-Identifier: Apache-2.0

// Maps descriptor numbers to the provider's state for them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace softhca::provider {

/// All zeros means that the descriptor is not the provider's. The memory stays until the process
/// ends.
template <class T>
class DescriptorTable {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  T find(int fd) const { return holds(fd) ? entries_[fd] : T{}; }

  /// Sets an entry. False: out of memory. REQUIRES: fd >= 0.
  bool put(int fd, const T& entry) {
    const auto slot = static_cast<std::size_t>(fd);
    if (slot >= slots_) {
      const std::size_t wanted = slot + 64;
      // NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer
      auto* grown = static_cast<T*>(std::realloc(entries_, wanted * sizeof(T)));
      if (grown == nullptr) return false;
      std::memset(static_cast<void*>(grown + slots_), 0, (wanted - slots_) * sizeof(T));
      // NOLINTEND(bugprone-sizeof-expression)
      entries_ = grown;
      slots_ = wanted;
    }
    entries_[slot] = entry;
    return true;
  }

  void forget(int fd) {
    if (holds(fd)) entries_[fd] = {};
  }

  T* begin() { return entries_; }
  T* end() { return entries_ + slots_; }

 private:
  bool holds(int fd) const { return fd >= 0 && static_cast<std::size_t>(fd) < slots_; }

  T* entries_ = nullptr;
  std::size_t slots_ = 0;
};

}  // namespace softhca::provider
