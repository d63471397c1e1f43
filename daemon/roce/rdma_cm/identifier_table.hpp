// SPDX-License-Identifier: Apache-2.0

// The identifiers of a tenant, by number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "daemon/roce/rdma_cm/identifier.hpp"

namespace softhca::management::rdma_cm {

class IdentifierTable {
 public:
  /// Makes an identifier with the lowest free number. References to it are valid until it is
  /// erased.
  Identifier& make();
  void erase(IdentifierNumber number);

  /// Returns null if there is none.
  Identifier* find(std::uint32_t number);
  Identifier* find_cookie(std::uint64_t cookie);
  /// Finds the identifier that a command of a channel names. Returns 0, ENOENT if it does not
  /// exist, EINVAL if it belongs to another channel, or ENXIO, with `found` set, if the adapter is
  /// gone.
  int find_of(ChannelId channel, std::uint32_t number, Identifier*& found);
  /// Like find_of(), but returns EINVAL if the identifier is not bound to an address.
  int find_bound(ChannelId channel, std::uint32_t number, Identifier*& found);

  /// Returns the identifier that the last command named. Null: it named none that exists.
  const Identifier* last_named() { return find(last_named_); }
  /// Call it before each command.
  void forget_last_named() { last_named_ = kNone; }

  std::size_t size() const { return size_; }
  /// Returns the number of slots; every number in use is below it.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& slot : slots_)
      if (slot) visit(*slot);
  }

 private:
  std::vector<std::unique_ptr<Identifier>> slots_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_;
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t last_named_ = kNone;
  std::uint32_t generations_ = 0;
  std::size_t size_ = 0;
};

}  // namespace softhca::management::rdma_cm
