// SPDX-License-Identifier: Apache-2.0

// What the configuration leaves to the host, so that many hosts can have the same file. The network
// of an address stands for the interface or socket of a port. A network among the addresses of a
// port is a pool, of which each host takes its part. Tenants may list the name of a port in place
// of its addresses.
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/base/host_addresses.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/schema/reader.hpp"

namespace softhca::configuration {

/// Fills in the interfaces, sockets and addresses of `ports`. Their other keys have been read.
/// `values`: their tables. `host`: the addresses that the host has. `most`: addresses that a port
/// takes of its pool. A port with a problem has no address.
void resolve_ports(std::vector<PortConfig>& ports, const std::vector<const Value*>& values,
                   const std::vector<HostAddress>& host, std::size_t most, Problems& problems);

/// Returns the part of the pool for one host: its bits behind `pool` begin with those of `host`
/// behind `network`, so no two hosts of the network have a common address. At most `most`
/// addresses, which have the prefix length of the pool. Empty: the pool has fewer bits than the
/// network.
std::vector<InterfaceAddress> part_of_pool(const AddressPrefix& pool, const AddressPrefix& network,
                                           const Gid& host, std::size_t most);

/// Replaces names of ports in the `addresses` of tenants by addresses of these ports.
class NamedPorts {
 public:
  /// `tenants`: all tenants. The addresses that they list themselves are not given to others.
  NamedPorts(const std::vector<PortConfig>& ports, const std::vector<const Value*>& tenants);

  /// Returns the table of a tenant: each name stands for the port's first address that no tenant
  /// has. Call it in the order of the file. A name without such an address is left out, and is a
  /// problem.
  Value in_tenant(const Value& tenant, Problems& problems);
  /// Returns the table of a template: a name stands for all addresses of the port that no tenant
  /// has. REQUIRES: in_tenant() was called for all tenants.
  Value in_template(const Value& table, Problems& problems);

 private:
  struct Named {
    const PortConfig* port = nullptr;
    std::vector<Gid> free = {};  ///< addresses that no tenant lists
    std::size_t given = 0;       ///< of these, from the first
  };

  template <class Give>
  Value replace(const Value& table, const char* key, Problems& problems, Give give);

  std::vector<Named> ports_;
  std::size_t of_templates_ = 0;  ///< addresses in templates by names of ports
};

}  // namespace softhca::configuration
