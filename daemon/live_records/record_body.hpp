// SPDX-License-Identifier: Apache-2.0

// The body of a record: values, and bytes with their number before them. The layout of a value is
// that of this machine, as the same machine reads it. A body only grows at its end
// (record_format.hpp). Behind the last value that a reader knows may be those of a later release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace softhca::records {

class BodyWriter {
 public:
  template <class T>
  BodyWriter& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
    return *this;
  }
  BodyWriter& add_bytes(std::span<const std::byte> bytes) {
    add(static_cast<std::uint32_t>(bytes.size()));
    append(bytes);
    return *this;
  }
  BodyWriter& add_text(std::string_view text) {
    return add_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::byte> bytes_;
};

/// Reads what a BodyWriter wrote. Each function returns false at a body that is too short.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : rest_(body) {}

  template <class T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  /// `bytes` stays valid as long as the body.
  [[nodiscard]] bool read_bytes(std::span<const std::byte>& bytes) {
    std::uint32_t count = 0;
    if (!read(count) || rest_.size() < count) return false;
    bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return true;
  }
  [[nodiscard]] bool read_text(std::string& text) {
    std::span<const std::byte> bytes;
    if (!read_bytes(bytes)) return false;
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  /// Reads a value that a release has added to the body. What an earlier release wrote ends before
  /// it: `value` stays as it is then.
  template <class T>
  [[nodiscard]] bool read_added(T& value) {
    return rest_.empty() || read(value);
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace softhca::records
