// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/memory_requests.hpp"

#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

Expected<memory::Region*> RegisterMr::run(Engine& engine) {
  memory::KeyTable& keys = engine.keys();
  auto inserted = key == 0 ? keys.insert(std::move(region)) : keys.insert(std::move(region), key);
  if (inserted) {
    tenant.counters.memory_regions.add();
    tenant.counters.memory.registered_bytes.add(bytes);
  }
  return inserted;
}

std::unique_ptr<memory::Region> ReregisterMr::run(Engine& engine) {
  auto before = engine.keys().replace(key, std::move(region));
  tenant.counters.memory.registered_bytes.subtract(bytes_before);
  tenant.counters.memory.registered_bytes.add(bytes);
  return before;
}

void DeregisterMr::run(Engine& engine) const {
  tenant.counters.memory_regions.subtract();
  tenant.counters.memory.registered_bytes.subtract(bytes);
  removed = engine.keys().remove(key, engine.clock().now);
}

std::uint32_t AllocMw::run(Engine& engine) const {
  memory::WindowTable& windows = engine.memory().windows();
  const auto inserted = key == 0 ? windows.insert(pd, type2) : windows.insert(pd, type2, key);
  return inserted ? (*inserted)->key : 0;
}

void DeallocMw::run(Engine& engine) const { engine.memory().remove_window(key); }

MemoryReach ReachMemory::run(Engine& engine) const {
  if (by_proxy) engine.memory().waits().open();
  return {.waits = engine.memory().waits(),
          .waited = [&slow = engine.slow_memory(), &tenant = tenant](Duration time) {
            slow.waited(tenant, time);
          }};
}

}  // namespace softhca::engine
