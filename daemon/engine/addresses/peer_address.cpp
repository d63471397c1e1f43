// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/addresses/peer_address.hpp"

namespace softhca::engine {

bool answer_from(QueuePair& qp, const Gid& address) {
  AddressPath& path = qp.connection.route.path;
  if (!qp.tenant->answers_to(qp.connection.named_source, address, path.port)) return false;
  path.source = address;
  qp.connection.route.invalidate();
  return true;
}

void try_other_source(QueuePair& qp) {
  const Tenant& tenant = *qp.tenant;
  AddressPath& path = qp.connection.route.path;
  const Gid& named = qp.connection.named_source;
  if (qp.connection.peer_seen || (tenant.former_addresses.empty() && path.source == named)) return;
  const std::size_t now = tenant.addresses.size();
  const std::size_t all = now + tenant.former_addresses.size();
  const auto at = [&](std::size_t i) -> const Gid& {
    return (i < now ? tenant.addresses[i] : tenant.former_addresses[i - now]).gid;
  };
  std::size_t used = 0;
  while (used < all && at(used) != path.source) ++used;
  for (std::size_t i = 1; i <= all; ++i) {
    const Gid& other = at((used + i) % all);
    if (other == path.source || other.is_ipv4() != path.destination.is_ipv4() ||
        !tenant.answers_to(named, other, path.port))
      continue;
    path.source = other;
    qp.connection.route.invalidate();
    return;
  }
}

}  // namespace softhca::engine
