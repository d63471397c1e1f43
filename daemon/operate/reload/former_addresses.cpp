// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/former_addresses.hpp"

#include <algorithm>

namespace softhca::control {
namespace {

std::uint8_t prefix_of(const configuration::Config& config,
                       const engine::Tenant::Address& address) {
  if (address.port)
    for (const configuration::InterfaceAddress& each : config.ports[address.port->value].addresses)
      if (each.gid == address.gid) return each.prefix;
  return 0;
}

}  // namespace

/// Keeps lost addresses for existing sessions: their queue pairs and address handles keep their
/// source addresses.
void FormerAddresses::change(const std::vector<std::unique_ptr<engine::Tenant>>& tenants,
                             const configuration::Config& before,
                             const configuration::Config& wanted, std::uint32_t next_session) {
  for (const auto& tenant : tenants) {
    const configuration::TenantConfig* entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr) continue;
    const auto has = [&](const Gid& gid) {
      return std::find(entry->addresses.begin(), entry->addresses.end(), gid) !=
             entry->addresses.end();
    };
    for (const engine::Tenant::Address& address : tenant->addresses)
      if (!has(address.gid))
        entries_.push_back({tenant.get(), address, next_session, prefix_of(before, address)});
    std::erase_if(entries_, [&](const Entry& former) {
      return former.tenant == tenant.get() && has(former.address.gid);
    });
  }
}

void FormerAddresses::forget(const engine::Tenant& tenant) {
  std::erase_if(entries_, [&](const Entry& former) { return former.tenant == &tenant; });
}

std::vector<engine::Tenant::Address> FormerAddresses::of(const engine::Tenant& tenant) const {
  std::vector<engine::Tenant::Address> addresses;
  for (const Entry& former : entries_)
    if (former.tenant == &tenant) addresses.push_back(former.address);
  return addresses;
}

bool FormerAddresses::contains(const Gid& gid) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& former) { return former.address.gid == gid; });
}

}  // namespace softhca::control
