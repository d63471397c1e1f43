// SPDX-License-Identifier: Apache-2.0

// Requests about memory regions and memory windows, and about the memory of processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::engine {

class Engine;
class MemoryWaits;
struct Tenant;

/// Installs a memory region, and counts it for the tenant. Returns the region, which has its key
/// now. Errors: ENOMEM (the table is full), EEXIST (the slot of the given key is in use).
struct RegisterMr {
  Tenant& tenant;
  std::unique_ptr<memory::Region> region;
  std::uint64_t bytes;    ///< that it counts as registered
  std::uint32_t key = 0;  ///< that an earlier engine chose; 0: the engine chooses
  Expected<memory::Region*> run(Engine& engine);
};

/// Replaces the region of a key. Returns the old region, so that the caller's thread unmaps its
/// memory.
struct ReregisterMr {
  Tenant& tenant;
  std::uint32_t key;
  std::unique_ptr<memory::Region> region;
  std::uint64_t bytes_before;  ///< registered bytes of the old region
  std::uint64_t bytes;
  std::unique_ptr<memory::Region> run(Engine& engine);
};

/// Ends a key. Moves its region to `removed`, so that the caller's thread unmaps its memory.
struct DeregisterMr {
  Tenant& tenant;
  std::uint32_t key;
  std::uint64_t bytes;
  std::unique_ptr<memory::Region>& removed;
  void run(Engine& engine) const;
};

/// Makes a memory window. Returns its first key, or 0 if the table is full or the slot of the given
/// key is in use.
struct AllocMw {
  memory::PdId pd;
  bool type2;             ///< it can be invalidated
  std::uint32_t key = 0;  ///< that an earlier engine chose; 0: the engine chooses
  std::uint32_t run(Engine& engine) const;
};

/// Removes the memory window with this first key.
struct DeallocMw {
  std::uint32_t key;
  void run(Engine& engine) const;
};

/// What the memory of a tenant's processes uses of the engine.
struct MemoryReach {
  MemoryWaits& waits;
  /// Charges the tenant for time that the engine has waited; of the engine's thread.
  std::function<void(Duration)> waited;
};

/// Prepares the engine to access memory that the tenant's processes do not share. `by_proxy`: queue
/// pairs wait for accesses that another process makes (MemoryProxy). Allocates.
struct ReachMemory {
  Tenant& tenant;
  bool by_proxy;
  MemoryReach run(Engine& engine) const;
};

}  // namespace softhca::engine
