// SPDX-License-Identifier: Apache-2.0

// Requests about address handles.
#pragma once

#include <cstdint>

namespace softhca::engine {

class Engine;
struct AddressHandle;

/// Adds an address handle, and sets the UDP source port of its route. Returns its number, which
/// commands carry.
struct AddAh {
  AddressHandle& ah;
  std::uint32_t run(Engine& engine) const;
};

/// Adds an address handle with a number that an earlier engine returned. Returns false if the slot
/// of the number is in use.
struct RestoreAh {
  AddressHandle& ah;
  std::uint32_t handle;
  bool run(Engine& engine) const;
};

/// Removes the address handle with this number. The object may be freed afterwards.
struct RemoveAh {
  std::uint32_t handle;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
