// The way from an address of a tenant to a peer, for what is sent on the tenant's behalf.
#pragma once

#include <optional>

#include "daemon/control/adapter/adapter.hpp"

namespace softhca::control {

/// The address to send from: on the same network, else one with a gateway; inside this daemon any
/// of the family. Nothing: there is no way.
std::optional<Gid> source_for(const Adapter& adapter, const engine::Tenant& tenant,
                              const Gid& destination);

/// `local`: an address that the tenant has, or had.
engine::AddressPath path_between(const Adapter& adapter, const engine::Tenant& tenant,
                                 const Gid& local, const Gid& remote);

}  // namespace softhca::control
