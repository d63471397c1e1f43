// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/adapter.hpp"

#include <algorithm>
#include <utility>

#include "daemon/device/adapter/guid.hpp"
#include "daemon/engine/ports/port_binding.hpp"

namespace softhca::control {

std::uint32_t path_mtu_for(std::uint32_t bytes) {
  // IPv6 header, UDP header, base and largest extended transport headers, ICRC.
  constexpr std::uint32_t kOverhead = 40 + 8 + 12 + 28 + 4;
  std::uint32_t mtu = 4096;
  while (mtu > 256 && mtu + kOverhead > bytes) mtu /= 2;
  return mtu;
}

std::uint8_t mtu_code(std::uint32_t path_mtu) {
  constexpr std::uint8_t kMtu4096 = 5;
  std::uint8_t code = 1;
  for (; path_mtu > 256 && code < kMtu4096; path_mtu /= 2) ++code;
  return code;
}

std::uint32_t Adapter::path_mtu(const engine::Tenant& tenant, DevicePart part) const {
  std::uint32_t mtu = 4096;
  for (const auto& address : tenant.addresses)
    if (address.port && part.has(address))
      mtu = std::min(mtu, path_mtu_for(engine.ports[address.port->value]->port->mtu()));
  return mtu;
}

bool Adapter::link_up(const GidEntries& addresses, DevicePart part) const {
  return std::ranges::all_of(addresses, [&](const engine::Tenant::Address& address) {
    return !address.port || !part.has(address) || engine.ports[address.port->value]->link_up();
  });
}

std::optional<PortId> Adapter::find_port(std::string_view name) const {
  for (const auto& binding : engine.ports)
    if (binding->name == name) return binding->id;
  return std::nullopt;
}

std::uint64_t Adapter::node_guid(const engine::Tenant& tenant, std::uint8_t device) const {
  const configuration::TenantDevice is = devices(tenant)[device];
  if (const auto given = configuration::parse_guid(is.guid)) return *given;
  return control::node_guid(identity, device == 0 ? tenant.name : tenant.name + '/' + is.name);
}

std::string Adapter::name_among_several(const engine::Tenant& tenant, std::uint8_t device) const {
  const auto& all = settings(tenant).devices;
  return all.size() > 1 && device < all.size() ? all[device].name : "";
}

void Adapter::put_in_force(configuration::Config wanted) {
  config = std::move(wanted);
  for (const auto& tenant : tenants)
    if (const configuration::TenantConfig* entry = find_tenant(config, tenant->name))
      tenant->control.settings = std::make_shared<const configuration::TenantConfig>(*entry);
}

void Adapter::apply(const configuration::Config& wanted) {
  worker.set_idle(wanted.daemon.idle == configuration::IdlePolicy::kAdaptive);
  totals.set_limits(configuration::totals_of(wanted.pools));
  for (const auto& tenant : tenants)
    if (const configuration::TenantConfig* entry = find_tenant(wanted, tenant->name))
      tenant->control.accounts.set_limits(entry->limits);
}

bool Adapter::take_vcb(engine::Tenant& tenant, engine::Level* level) {
  const bool taken = level != nullptr ? vcbs.take(level->control.vcbs, tenant.control.vcbs)
                                      : vcbs.take(tenant.control.vcbs);
  if (!taken) return false;
  add_one(tenant.control.all_vcbs_in_use, tenant.control.all_vcbs_high_water);
  return true;
}

void Adapter::put_vcb(engine::Tenant& tenant, engine::Level* level) {
  level != nullptr ? vcbs.put(level->control.vcbs, tenant.control.vcbs)
                   : vcbs.put(tenant.control.vcbs);
  tenant.control.all_vcbs_in_use.subtract();
}

}  // namespace softhca::control
