// SPDX-License-Identifier: Apache-2.0

// Finds the queue pairs that draw most of a shared receive queue lately, in a few words for any
// number of queue pairs: "space saving" (Metwally, Agrawal, El Abbadi, 2005). A queue pair with
// more than a fourth of the counted draws is among the four. All counts are halved when they add up
// to four times the buffers of the queue, so that old draws count for little.
//
// Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::receive {

class TopDrawers {
 public:
  struct Drawer {
    Qpn qpn;
    std::uint32_t count = 0;  ///< upper bound of its draws
    std::uint32_t error = 0;  ///< how many of `count` may belong to others
    /// Returns a lower bound of its draws.
    std::uint32_t certain() const { return count - error; }
  };
  static constexpr std::size_t kMost = 4;

  TopDrawers() = default;
  /// `buffers`: size of the queue.
  explicit TopDrawers(std::uint32_t buffers) { resize(buffers); }

  void resize(std::uint32_t buffers) { window_ = std::max(buffers, 4u) * 4; }

  void add(Qpn qpn) {
    ++draws_;
    if (++total_ >= window_) fade();
    if (drawers_[last_].qpn != qpn) last_ = place_of(qpn);
    ++drawers_[last_].count;
  }

  std::uint64_t draws() const { return draws_; }  ///< since the queue exists
  std::uint32_t total() const { return total_; }  ///< that count now
  /// Returns the queue pairs, highest count first. Entries with a count of 0 are unused.
  std::array<Drawer, kMost> ranked() const {
    auto out = drawers_;
    std::sort(out.begin(), out.end(),
              [](const Drawer& a, const Drawer& b) { return a.count > b.count; });
    return out;
  }
  /// Returns the queue pair with more than half of the counted draws, or null.
  const Drawer* majority() const {
    for (const Drawer& drawer : drawers_)
      if (drawer.certain() > total_ / 2) return &drawer;
    return nullptr;
  }

 private:
  std::size_t place_of(Qpn qpn) {
    std::size_t least = 0;
    for (std::size_t i = 0; i < kMost; ++i) {
      if (drawers_[i].qpn == qpn) return i;
      if (drawers_[i].count < drawers_[least].count) least = i;
    }
    drawers_[least].qpn = qpn;
    drawers_[least].error = drawers_[least].count;
    return least;
  }
  void fade() {
    total_ /= 2;
    for (Drawer& drawer : drawers_) {
      drawer.count /= 2;
      drawer.error /= 2;
    }
  }

  std::array<Drawer, kMost> drawers_{};
  std::size_t last_ = 0;
  std::uint32_t total_ = 0;
  std::uint32_t window_ = 16;
  std::uint64_t draws_ = 0;
};

}  // namespace softhca::receive
