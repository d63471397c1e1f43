// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/device_context.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/engine/memory/measured_memory.hpp"
#include "daemon/engine/memory/memory_proxy.hpp"
#include "daemon/engine/requests/memory.hpp"
#include "daemon/tenant_memory/offered_memory.hpp"

namespace softhca::control {
namespace {

// Bytes unmapped at a time. It takes a millisecond or two, during which the engine can have no page
// mapped.
constexpr std::size_t kPiece = 16 << 20;

}  // namespace

Unmap SessionContext::unmap() const {
  return [&calls = adapter_.blocking_calls, helpers = adapter_.helpers,
          &tenant = tenant_](SealedMemory memory) {
    engine::TenantControl& control = tenant.control;
    const std::size_t bytes = memory.bytes();
    control.unmapping_bytes += bytes;
    ++control.unmapping_mappings;
    const auto step = [all = std::make_shared<SealedMemory>(std::move(memory)), helpers] {
      // A process that punches holes in the memory would delay the unmapping, with the daemon's
      // address space locked. So the memory is sealed first.
      if (const UniqueFd fd = all->take_fd()) (void)seal(helpers, fd.get());
      return all->unmap(kPiece);
    };
    calls.make_steps(tenant.name, step, [&control, bytes] {
      control.unmapping_bytes -= bytes;
      --control.unmapping_mappings;
    });
  };
}

LockMemory SessionContext::lock_memory() const {
  return [&adapter = adapter_, all = adapter_.locked,
          own = tenant_.control.locked](std::size_t bytes) -> std::shared_ptr<void> {
    const std::uint64_t part = adapter.lockable / std::max<std::size_t>(adapter.tenants.size(), 1);
    if (*own + bytes > part || *all + bytes > adapter.lockable) return nullptr;
    *all += bytes;
    *own += bytes;
    // Another thread may unmap the memory, even after the tenant is gone.
    return {own.get(), [all, own, bytes](auto*) {
              *all -= bytes;
              *own -= bytes;
            }};
  };
}

bool SessionContext::may_map() const {
  const engine::TenantControl& control = tenant_.control;
  const auto limit = [&](configuration::Kind kind) { return control.accounts.limit(kind); };
  constexpr std::uint64_t kPart = 8, kFew = 64;  // the daemon's mappings are limited
  if (control.unmapping_mappings > std::max(limit(configuration::Kind::kMappings) / kPart, kFew))
    return false;
  // Both limits may be the maximum.
  const std::uint64_t shared = limit(configuration::Kind::kSharedBytes);
  return control.unmapping_bytes <= shared ||
         control.unmapping_bytes - shared <= limit(configuration::Kind::kQueueBytes);
}

Expected<std::shared_ptr<memory::ProcessMemory>> SessionContext::reach_process(PeerSocket socket,
                                                                               bool trusted) const {
  const bool by_proxy = adapter_.helpers != nullptr && !trusted;
  const engine::MemoryReach reach =
      on_engine(engine::ReachMemory{.tenant = tenant_, .by_proxy = by_proxy});
  if (!by_proxy) {
    UniqueFd own(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!own) return system_error("a process's memory");
    socket.hand_over();
    // Closing the last copy of a socket closes the descriptors in it, whatever the process has
    // sent.
    const auto close = [&calls = adapter_.blocking_calls, name = tenant_.name](auto* memory) {
      calls.make(name, [owned = std::shared_ptr<memory::ProcessMemory>(memory)] {});
    };
    const std::shared_ptr<memory::ProcessMemory> offered(new memory::OfferedMemory(std::move(own)),
                                                         close);
    return std::shared_ptr<memory::ProcessMemory>(std::make_shared<engine::MeasuredMemory>(
        offered, reach.waited, tenant_.memory_suspected_until));
  }
  const auto start = [&](int area, int end) {
    return adapter_.helpers->start_memory_proxy(area, end);
  };
  for (auto proxy = tenant_.control.memory_proxy.lock();; proxy = nullptr) {
    const bool fresh = proxy == nullptr;
    if (fresh) {
      auto made =
          engine::MemoryProxy::create(start, {tenant_.counters.memory, reach.waits, reach.waited});
      if (!made) return made.error();
      proxy = std::move(*made);
      tenant_.control.memory_proxy = proxy;
    }
    auto memory = engine::MemoryProxy::add(proxy, socket.get());
    // The proxy has this end before the tenant's process gets the other one.
    if (memory) socket.hand_over();
    if (memory || fresh || memory.error().code != EPIPE) return memory;
    // The memory proxy has been killed.
  }
}

}  // namespace softhca::control
