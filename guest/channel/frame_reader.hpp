// SPDX-License-Identifier: Apache-2.0

// Cuts the bytes of a channel into frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "guest/channel/frame.hpp"

namespace softhca::guest {

struct Frame {
  FrameKind kind = FrameKind::kNone;
  std::uint32_t stream = 0;
  std::span<const std::byte> payload;

  /// Copies a structure from the front of the payload. Returns false if the payload is shorter.
  template <class T>
  bool take(T& value) {
    if (payload.size() < sizeof value) return false;
    std::memcpy(&value, payload.data(), sizeof value);
    payload = payload.subspan(sizeof value);
    return true;
  }
};

class FrameReader {
 public:
  enum class Result : std::uint8_t {
    kFrame,
    kMore,   ///< the rest of the frame, or the magic, has not come yet
    kReset,  ///< zeros follow, as before a kStart: the reader drops all before the next magic
    kLost,   ///< a header that cannot be follows: the reader drops all before the next magic
  };

  FrameReader() : buffer_(kBytes) {}

  /// Returns room for the next bytes; never empty after next() has returned kMore. Invalidates
  /// frames.
  std::span<std::byte> room();
  /// `bytes` have been written to the front of room().
  void filled(std::size_t bytes) { end_ += bytes; }

  /// Finds the next frame. Drops all bytes until the first magic.
  Result next(Frame& frame);
  /// Drops all bytes until the next magic.
  void search() { searching_ = true; }
  /// Drops all bytes that came, and those until the next magic.
  void reset();

 private:
  static constexpr std::size_t kBytes = 4 * kMaxFrame;

  bool find_magic();

  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of the bytes that are not in a frame yet
  bool searching_ = true;
};

}  // namespace softhca::guest
