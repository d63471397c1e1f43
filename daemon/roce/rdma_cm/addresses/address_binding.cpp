// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"

#include <cerrno>

#include "daemon/base/address_text.hpp"

namespace softhca::management::rdma_cm {

int AddressBinding::bind_ip(const ChannelCommand& command) {
  rdma_ucm_bind_ip body;
  if (const int error = command.read(body)) return error;
  SocketAddress address;
  if (const int error = command.read_address("addr", body.addr, address)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  return bind(command, *id, address);
}

int AddressBinding::bind(const ChannelCommand& command, Identifier& id, SocketAddress address) {
  if (const int error = command.check_state(id, {IdentifierState::kIdle})) return error;
  const bool loopback = addresses_.is_loopback(address);
  std::optional<Gid> source;
  if (!address.is_any()) {
    const TenantGid* const own =
        loopback ? addresses_.find_loopback(address) : addresses_.find(address.address);
    if (own == nullptr)
      return command.refuse(EADDRNOTAVAIL, "address %s is not one of the tenant's, which has %s",
                            address_text(address.address).c_str(),
                            addresses_.list(address.address.is_ipv4()).c_str());
    source = address.address = own->gid;
  }
  id.local = address;
  if (const int error = ports_.bind(command, id)) {
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
