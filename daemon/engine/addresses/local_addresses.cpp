// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/addresses/local_addresses.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace softhca::engine {

void LocalAddresses::add(Tenant& tenant) {
  tenants_.push_back(&tenant);
  rebuild();
}

void LocalAddresses::remove(Tenant& tenant) {
  std::erase(tenants_, &tenant);
  rebuild();
}

void LocalAddresses::set(Tenant& tenant, std::vector<Tenant::Address> addresses,
                         std::vector<Tenant::Address> former) {
  tenant.addresses = std::move(addresses);
  tenant.former_addresses = std::move(former);
  rebuild();
}

void LocalAddresses::let_yield(Tenant& tenant, bool yields) {
  tenant.yields = yields;
  rebuild();
}

void LocalAddresses::rebuild() {
  by_gid_.clear();
  for (Tenant* tenant : tenants_)
    for (const auto* list : {&tenant->addresses, &tenant->former_addresses})
      for (const Tenant::Address& address : *list)
        by_gid_.push_back({address.gid, address.port, tenant,
                           tenant->yields || list == &tenant->former_addresses});
  std::stable_sort(by_gid_.begin(), by_gid_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.gid, a.former, a.port) < std::tie(b.gid, b.former, b.port);
  });
}

LocalAddresses::Place LocalAddresses::first(const Gid& gid) const {
  return std::lower_bound(by_gid_.begin(), by_gid_.end(), gid,
                          [](const Entry& entry, const Gid& sought) { return entry.gid < sought; });
}

bool LocalAddresses::is_local(const Gid& gid) const {
  const Place place = first(gid);
  return place != by_gid_.end() && place->gid == gid;
}

Tenant* LocalAddresses::owner(const Gid& gid, std::optional<PortId> port) const {
  for (Place place = first(gid); place != by_gid_.end() && place->gid == gid; ++place)
    if (!port || place->port == port) return place->tenant;
  return nullptr;
}

Tenant* LocalAddresses::owner_of(const QueuePair& qp, const Gid& gid,
                                 std::optional<PortId> port) const {
  if (qp.clients != nullptr) return owner(gid, port);
  const Tenant::Address* const address = qp.tenant->find_address(gid, port);
  return address != nullptr && address->device == qp.rq.device ? qp.tenant : nullptr;
}

std::optional<PortId> LocalAddresses::port_of(const Gid& source) const {
  for (Place place = first(source); place != by_gid_.end() && place->gid == source; ++place)
    if (place->port) return place->port;
  return std::nullopt;
}

}  // namespace softhca::engine
