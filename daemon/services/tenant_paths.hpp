// SPDX-License-Identifier: Apache-2.0

// The path from an address of a tenant to a peer, for packets that the daemon sends for the tenant.
#pragma once

#include <optional>
#include <string>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/records/route.hpp"

namespace softhca::control {

/// Returns the address to send from: one on the peer's network, else one with a gateway. For a peer
/// inside this daemon, returns any address of the family. Nothing: the peer cannot be reached.
std::optional<Gid> source_for(const Adapter& adapter, const engine::Tenant& tenant,
                              const Gid& destination);

/// Returns the networks of the tenant's addresses of a family as text, for messages.
std::string networks(const Adapter& adapter, const engine::Tenant& tenant, bool ipv4);

/// Returns the path. `local`: an address that the tenant has, or had.
engine::AddressPath path_between(const Adapter& adapter, const engine::Tenant& tenant,
                                 const Gid& local, const Gid& remote);

}  // namespace softhca::control
