// SPDX-License-Identifier: Apache-2.0

// The engine's end of the ring of a capture (abi/capture.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "abi/capture.hpp"

namespace softhca::engine {

class CaptureRing {
 public:
  using Part = std::span<const std::byte>;

  /// `memory`: zeroed, memory_for(size) bytes, where `size`, that of the ring, is a power of two.
  explicit CaptureRing(std::span<std::byte> memory);
  static constexpr std::size_t memory_for(std::size_t size) { return abi::kCaptureRing + size; }

  /// Here and below, false means that the ring has no room left; nothing was written then.
  bool add_interface(std::uint16_t id, std::string_view name);
  /// `parts`: the frame. The caller sets interface_id, direction, remark and time of `record`, and
  /// in `captured` the most bytes of the frame to keep.
  bool add_packet(abi::CaptureRecord record, std::span<const Part> parts);
  void count_dropped(std::uint16_t interface_id);

 private:
  bool add(abi::CaptureRecord record, std::span<const Part> parts);
  std::byte* reserve(std::size_t bytes);

  abi::CaptureHeader* header_;
  std::byte* ring_;
  std::size_t size_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  ///< the position that the reader reported last
  std::array<std::uint64_t, abi::kCaptureInterfaces> dropped_{};
};

}  // namespace softhca::engine
