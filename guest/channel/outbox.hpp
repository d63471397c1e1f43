// SPDX-License-Identifier: Apache-2.0

// Frames that wait until the channel takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "guest/channel/frame.hpp"

namespace softhca::guest {

class Outbox {
 public:
  using Parts = std::initializer_list<std::span<const std::byte>>;

  /// Adds a frame; its payload is the parts. REQUIRES: it is at most kMaxPayload bytes.
  void add(FrameKind kind, std::uint32_t stream, Parts payload);
  /// Adds bytes that are not a frame: zeros and the magic.
  void add_raw(std::span<const std::byte> bytes);

  /// False: the next frame has to wait. Only frames that follow the magic at once do not ask.
  bool has_room() const { return bytes_.size() - begin_ < kLimit; }
  bool is_empty() const { return begin_ == bytes_.size(); }
  /// Returns the bytes to write next.
  std::span<const std::byte> front() const { return std::span(bytes_).subspan(begin_); }
  void written(std::size_t bytes);
  void clear();

 private:
  static constexpr std::size_t kLimit = 16 * kMaxFrame;

  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace softhca::guest
