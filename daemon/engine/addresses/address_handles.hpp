// SPDX-License-Identifier: Apache-2.0

// Maps the number in a command to an address handle. The number is a slot index in the low 24 bits
// and a generation above it, so that a command with the number of a destroyed handle does not reach
// the handle that reuses its slot.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/records/route.hpp"

namespace softhca::engine {

class AddressHandles {
 public:
  /// Adds the handle, sets the UDP source port of its route, and returns its number.
  std::uint32_t add(AddressHandle& ah);
  void remove(std::uint32_t handle);
  /// Returns null if no handle has this number.
  AddressHandle* find(std::uint32_t handle) const;

 private:
  struct Slot {
    std::uint32_t handle = 0;
    AddressHandle* ah = nullptr;  ///< null: free
  };
  std::vector<Slot> slots_;
  std::deque<std::uint32_t> free_;  ///< free slots, oldest first, with their next generation
};

}  // namespace softhca::engine
