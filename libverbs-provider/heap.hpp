// SPDX-License-Identifier: Apache-2.0

// Objects on the C heap. C programs load this provider, and it must bring neither exceptions nor
// the C++ runtime into them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace softhca::provider {

/// Makes an object. Returns null and sets errno to ENOMEM if out of memory.
template <class T, class... Arguments>
T* make(const Arguments&... arguments) {
  static_assert(alignof(T) <= alignof(std::max_align_t));
  void* memory = std::calloc(1, sizeof(T));
  return memory == nullptr ? nullptr : new (memory) T{arguments...};
}

template <class T>
void dispose(T* object) {
  if (object == nullptr) return;
  object->~T();
  std::free(object);
}

struct Dispose {
  template <class T>
  void operator()(T* object) const {
    dispose(object);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Dispose>;

/// Zeroed array of a trivial type, freed with its owner.
template <class T>
class HeapArray {
 public:
  HeapArray() = default;
  HeapArray(HeapArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  HeapArray& operator=(HeapArray&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~HeapArray() { std::free(data_); }

  /// Allocates `count` zeroed elements. False: out of memory.
  bool allocate(std::size_t count) {
    std::free(data_);
    data_ = static_cast<T*>(std::calloc(count != 0 ? count : 1, sizeof(T)));
    return data_ != nullptr;
  }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace softhca::provider
