// SPDX-License-Identifier: Apache-2.0

// The body of a request that is being answered.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "abi/control.hpp"

namespace softhca::control {

/// A private copy of a request's body, validated by size before use.
class RequestBody {
 public:
  explicit RequestBody(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Reads a T. Returns false if the body is not exactly a T (or, with a tail, shorter than a T).
  template <class T>
  bool read(T& out, bool with_tail = false) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes_.size() < sizeof(T) || (!with_tail && bytes_.size() != sizeof(T))) return false;
    std::memcpy(&out, bytes_.data(), sizeof(T));
    return true;
  }
  /// Reads exactly `count` elements of T behind a head of type H. Returns false for any other size.
  template <class H, class T>
  bool read_tail(std::vector<T>& out, std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes_.size() != sizeof(H) + count * sizeof(T)) return false;
    out.resize(count);
    if (count != 0) std::memcpy(out.data(), bytes_.data() + sizeof(H), count * sizeof(T));
    return true;
  }
  /// True if the body is empty or a HandleBody of zeros, which means the same.
  bool empty() const {
    abi::HandleBody handle;
    return bytes_.empty() || (read(handle) && handle.handle == 0);
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace softhca::control
