#include "daemon/control/session/context.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace softhca::control {
namespace {

// What is unmapped at a time: a millisecond or two, in which the engine can have no page mapped.
constexpr std::size_t kPiece = 16 << 20;
// Less is not worth a thread's while.
constexpr std::size_t kSmall = 64 << 10;

void unmap_pieces(BlockingCalls& calls, engine::Tenant& tenant,
                  const std::shared_ptr<SealedMemory>& memory) {
  const auto then = [&calls, &tenant, memory, before = memory->bytes()] {
    tenant.control.unmapping_bytes -= before - memory->bytes();
    if (memory->bytes() != 0)
      unmap_pieces(calls, tenant, memory);
    else
      --tenant.control.unmapping_mappings;
  };
  calls.make(
      tenant.name, [memory] { memory->unmap(kPiece); }, then);
}

}  // namespace

Unmap SessionContext::unmap() const {
  return [&calls = adapter_.blocking_calls, &tenant = tenant_](SealedMemory memory) {
    if (memory.bytes() <= kSmall) return;  // unmapped as it ends
    tenant.control.unmapping_bytes += memory.bytes();
    ++tenant.control.unmapping_mappings;
    unmap_pieces(calls, tenant, std::make_shared<SealedMemory>(std::move(memory)));
  };
}

bool SessionContext::may_map() const {
  const resource::Accounts& accounts = tenant_.control.accounts;
  constexpr std::uint64_t kPart = 4, kFew = 1024;  // the daemon may have only so many mappings
  return tenant_.control.unmapping_bytes <= accounts.limit(resource::Kind::kSharedBytes) +
                                                accounts.limit(resource::Kind::kQueueBytes) &&
         tenant_.control.unmapping_mappings <=
             std::max(accounts.limit(resource::Kind::kMappings) / kPart, kFew);
}

}  // namespace softhca::control
