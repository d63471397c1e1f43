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
  /// Does the same with a number that an earlier engine returned. False: its slot is in use.
  bool add(AddressHandle& ah, std::uint32_t handle);
  void remove(std::uint32_t handle);
  /// Returns null if no handle has this number.
  AddressHandle* find(std::uint32_t handle) const;

 private:
  void enter(AddressHandle& ah, std::uint32_t handle);

  struct Slot {
    std::uint32_t handle = 0;
    AddressHandle* ah = nullptr;  ///< null: free
  };
  std::vector<Slot> slots_;
  /// Free slots, oldest first, with their next generation; may also have slots in use.
  std::deque<std::uint32_t> free_;
};

}  // namespace softhca::engine
