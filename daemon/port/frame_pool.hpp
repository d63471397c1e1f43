// SPDX-License-Identifier: Apache-2.0

// Frames that a port on a socket allocates: free, in use by the caller, or queued for transmission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/port/port.hpp"

namespace softhca::port {

class FramePool {
 public:
  /// Room for the largest RoCE frame (path MTU 4096 and all headers, 4210 bytes).
  static constexpr std::uint32_t kLongestFrame = 4608;

  FramePool() : storage_(std::make_unique_for_overwrite<std::byte[]>(kFrames * kRoom)) {
    free_.reserve(kFrames);
    sent_.reserve(kFrames);
    for (std::size_t i = 0; i < kFrames; ++i) free_.push_back(storage_.get() + i * kRoom);
  }

  bool empty() const { return free_.empty(); }
  /// Takes a free frame. REQUIRES: not empty().
  Frame take() {
    std::byte* data = free_.back();
    free_.pop_back();
    return {data, 0, kRoom, this};
  }
  bool owns(const Frame& frame) const { return frame.token == this; }
  void give_back(const Frame& frame) { free_.push_back(frame.data); }
  /// Keeps a frame until flushed(), which frees it.
  void keep(const Frame& frame) { sent_.push_back(frame.data); }
  void flushed() {
    free_.insert(free_.end(), sent_.begin(), sent_.end());
    sent_.clear();
  }

 private:
  static constexpr std::size_t kFrames = 256;
  static constexpr std::uint32_t kRoom = kLongestFrame + 64;

  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte*> free_;
  std::vector<std::byte*> sent_;
};

}  // namespace softhca::port
