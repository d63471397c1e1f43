// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/device_context.hpp"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <utility>

#include "daemon/device/adapter/control_clock.hpp"

namespace softhca::control {
namespace {

// Bytes unmapped at a time. It takes a millisecond or two, during which the engine can have no page
// mapped.
constexpr std::size_t kPiece = 16 << 20;

/// Returns the name of a kind in a sentence: "memory regions".
std::string words_of(configuration::Kind kind) {
  std::string name = configuration::name_of(kind);
  std::ranges::replace(name, '_', ' ');
  return name;
}

}  // namespace

int SessionContext::refuse(int error, const char* format, ...) const {
  char text[abi::kMaxRefusalText + 1];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  refusal_ = text;
  return error;
}

int SessionContext::refuse(const Error& error) const {
  return error.message.empty() ? error.code : refuse(error.code, "%s", error.message.c_str());
}

void SessionContext::explain_refusal(Reply& reply, const char* verb) {
  if (refusal_.empty()) return;
  reply.write_refusal(refusal_);
  if (verb != nullptr)
    reported_refusals_.report(adapter_.journal, tenant_.name, identity().pid, verb, refusal_);
}

configuration::Charge SessionContext::take(configuration::Kind kind, std::uint64_t amount,
                                           std::uint64_t spare) const {
  configuration::Accounts& accounts = tenant_.control.accounts;
  if (restoring_) return accounts.take_again(kind, amount);
  const std::uint64_t by_whole = accounts.refused_by_whole(kind);
  configuration::Charge charge = accounts.take(kind, amount, spare);
  if (charge) return charge;
  const std::string words = words_of(kind);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (accounts.refused_by_whole(kind) != by_whole)
    refuse(ENOMEM, "%llu more %s: all tenants together have too many (pools.%s)", number(amount),
           words.c_str(), configuration::name_of(kind));
  else if (amount == 1 && spare == 0)
    refuse(ENOMEM, "tenant limit of %llu %s reached", number(accounts.limit(kind)), words.c_str());
  else
    refuse(ENOMEM, "%llu more %s: the tenant has %llu of at most %llu", number(amount),
           words.c_str(), number(accounts.in_use(kind)),
           number(accounts.limit(kind) - std::min(spare, accounts.limit(kind))));
  return charge;
}

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

memory::MemorySource SessionContext::memory_source() const {
  const auto lock = [&adapter = adapter_, all = adapter_.locked,
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
  return {.lock = lock, .keeping = keeping(), .machine = &machine_};
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

std::uint32_t SessionContext::largest_path_mtu() const {
  std::uint32_t largest = 0;
  for (std::uint8_t port = 1; port <= ports_of(tenant_.addresses, device_index_); ++port)
    largest = std::max(largest, path_mtu(port));
  return largest;
}

int SessionContext::check_port(const char* field, std::uint32_t port) const {
  const unsigned most = ports_of(tenant_.addresses, device_index_);
  if (port != 0 && port <= most) return 0;
  return refuse(EINVAL, "%s %u, must be %s%u", field, port, most == 1 ? "" : "1 to ", most);
}

}  // namespace softhca::control
