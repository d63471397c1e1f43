// SPDX-License-Identifier: Apache-2.0

// The buffers of a receive pool that are in use, with their client and source. Pure; allocates only
// at set-up.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/qos/gsa/gsa_client.hpp"

namespace softhca::management::gsa {

class BufferTable {
 public:
  struct Holder {
    ClientId client;
    std::uint32_t source = kNoIndex;
    bool borrowed = false;
    bool of_new_source = false;
  };

  /// Allocates.
  explicit BufferTable(std::uint32_t buffers) : holders_(buffers), free_(buffers) {
    for (std::uint32_t i = 0; i < buffers; ++i) free_[i] = buffers - 1 - i;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(holders_.size()); }
  bool all_in_use() const { return free_.empty(); }

  /// Takes and returns the buffer that was given back last. REQUIRES: not all are in use.
  std::uint32_t take(const Holder& holder) {
    assert(!all_in_use());
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    holders_[buffer] = holder;
    return buffer;
  }
  /// Gives a buffer back. Returns its holder; nothing if it was not in use.
  std::optional<Holder> give_back(std::uint32_t buffer) {
    const std::optional<Holder> holder = find(buffer);
    if (!holder) return std::nullopt;
    holders_[buffer] = {};
    free_.push_back(buffer);
    return holder;
  }
  /// Returns the holder of the buffer; nothing if it is not in use.
  std::optional<Holder> find(std::uint32_t buffer) const {
    if (buffer >= holders_.size() || holders_[buffer].client == ClientId{}) return std::nullopt;
    return holders_[buffer];
  }

 private:
  std::vector<Holder> holders_;      ///< no client: not in use
  std::vector<std::uint32_t> free_;  ///< the last is taken first
};

}  // namespace softhca::management::gsa
