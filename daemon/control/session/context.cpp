#include "daemon/control/session/context.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace softhca::control {
namespace {

// What is unmapped at a time: a millisecond or two, in which the engine can have no page mapped.
constexpr std::size_t kPiece = 16 << 20;

}  // namespace

Unmap SessionContext::unmap() const {
  return [&calls = adapter_.blocking_calls, sealer = adapter_.sealer,
          &tenant = tenant_](SealedMemory memory) {
    engine::TenantControl& control = tenant.control;
    const std::size_t bytes = memory.bytes();
    control.unmapping_bytes += bytes;
    ++control.unmapping_mappings;
    const auto step = [all = std::make_shared<SealedMemory>(std::move(memory)), sealer] {
      // Who makes holes in it would keep us waiting with our address space locked.
      if (const UniqueFd fd = all->take_fd()) (void)seal(sealer, fd.get());
      return all->unmap(kPiece);
    };
    calls.make_steps(tenant.name, step, [&control, bytes] {
      control.unmapping_bytes -= bytes;
      --control.unmapping_mappings;
    });
  };
}

bool SessionContext::may_map() const {
  const engine::TenantControl& control = tenant_.control;
  const auto limit = [&](resource::Kind kind) { return control.accounts.limit(kind); };
  constexpr std::uint64_t kPart = 8, kFew = 64;  // the daemon may have only so many mappings
  if (control.unmapping_mappings > std::max(limit(resource::Kind::kMappings) / kPart, kFew))
    return false;
  const std::uint64_t shared = limit(resource::Kind::kSharedBytes);  // both may be without end
  return control.unmapping_bytes <= shared ||
         control.unmapping_bytes - shared <= limit(resource::Kind::kQueueBytes);
}

}  // namespace softhca::control
