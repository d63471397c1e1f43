// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/device_context.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

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

}  // namespace softhca::control
