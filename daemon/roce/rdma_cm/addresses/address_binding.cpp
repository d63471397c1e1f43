// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

int AddressBinding::bind_ip(const ChannelCommand& command) {
  rdma_ucm_bind_ip body;
  if (!read_body(command.body, body)) return EINVAL;
  const std::optional<SocketAddress> address = from_sockaddr(body.addr);
  if (!address) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command.channel.id, body.id, id)) return error;
  return bind(*id, command.channel.owner, *address);
}

int AddressBinding::bind(Identifier& id, const ChannelOwner& owner, SocketAddress address) {
  if (id.state != IdentifierState::kIdle) return EINVAL;
  const bool loopback = addresses_.is_loopback(address);
  std::optional<Gid> source;
  if (!address.is_any()) {
    const TenantGid* const own =
        loopback ? addresses_.find_loopback(address) : addresses_.find(address.address);
    if (own == nullptr) return EADDRNOTAVAIL;
    source = address.address = own->gid;
  }
  id.local = address;
  if (const int error = ports_.bind(id, owner.may_bind_low_ports)) {
    id.local = {};
    return error;
  }
  id.source = source;
  id.loopback_only = loopback;
  id.remote = any_address(address.family);
  id.state = IdentifierState::kBound;
  return 0;
}

}  // namespace softhca::management::rdma_cm
