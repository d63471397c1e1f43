// Address handles by the number that commands name them by: a slot, and above it a generation, so
// that a command posted before its handle was destroyed goes nowhere.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/route.hpp"

namespace softhca::engine {

class AddressHandles {
 public:
  /// Its number.
  std::uint32_t add(AddressHandle& ah);
  void remove(std::uint32_t handle);
  /// Null: there is none.
  AddressHandle* find(std::uint32_t handle) const;

 private:
  struct Slot {
    std::uint32_t handle = 0;
    AddressHandle* ah = nullptr;  ///< null: free
  };
  std::vector<Slot> slots_;
  std::deque<std::uint32_t> free_;  ///< by age, with their next generation
};

}  // namespace softhca::engine
