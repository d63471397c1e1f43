// SPDX-License-Identifier: Apache-2.0

// Requests by which a configuration comes into force. The start is the change from a configuration
// without tenants, addresses and settings: it makes the same request as a reload.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/engine/records/shared_receive_queue.hpp"
#include "daemon/engine/requests/tenant_requests.hpp"
#include "daemon/roce/neighbour/neighbours.hpp"

namespace softhca::engine {

class PeerTable;
enum class PortService : std::uint8_t;
struct PortBinding;

/// Adds a port without addresses; PutInForce sets them. REQUIRES: the engine's thread has not
/// started.
struct AddPort {
  std::unique_ptr<PortBinding> binding;
  void run(Engine& engine);
};

/// Has a port use its other link, and announces its addresses there.
struct FailOver {
  PortId port;
  void run(Engine& engine) const;
};

/// Has a port served, and announces its addresses; or has it not served.
struct ServePort {
  PortId port;
  PortService service;
  void run(Engine& engine) const;
};

/// A change of a port's addresses and neighbours.
struct PortChange {
  std::vector<neighbour::LocalAddress> added;
  std::vector<Gid> removed;
  Gid gateway4, gateway6;  ///< zero: none
  std::map<Gid, MacAddress> neighbours;
  bool announce = false;  ///< announces its addresses
};

/// Puts a configuration into force, or refuses it as a whole. Returns why not enough is free.
struct PutInForce {
  const configuration::Config& wanted;
  TenantAllocations& allocations;
  TenantAllocationChange& change;
  std::vector<TenantAddresses> addresses;  ///< of tenants that were there before
  Provisioners provisioners;               ///< for queues that lack one
  std::vector<PortChange> ports;           ///< by port
  /// The keys of peers, null for none. Nothing: they stay.
  std::optional<std::unique_ptr<PeerTable>> peers;
  Outcome run(Engine& engine);

 private:
  void set_policies(Engine& engine) const;
  void change_ports(Engine& engine);
};

}  // namespace softhca::engine
