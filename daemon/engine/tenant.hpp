// A tenant and its levels. What is not in `control` belongs to the engine: only its thread, or a
// task on it, changes it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/marking.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/engine/path_rules.hpp"
#include "daemon/engine/rate_gate.hpp"
#include "daemon/engine/tenant_control.hpp"
#include "daemon/receive/provisioner.hpp"
#include "daemon/transport/kept_packets.hpp"

namespace softhca::engine {

/// A level: a part of a tenant's allocation, with a name, for some of its processes and queue pairs
/// (mechanism A3).
struct Level {
  QosClassId qos_class;
  std::string name;
  bool is_default = false;  ///< for processes that nothing assigns to another
  Marking marking;          ///< of its packets, before that of its tenant
  PathRules rules;          ///< whose queue pairs it has, as the operator says
  PathRules own_rules;      ///< likewise, as the tenant says
  RateGate rate;
  PeerGates peer_rates;
  LevelCounters counters;
  LevelControl control;
};

/// A tenant as the engine sees it.
struct Tenant {
  TenantId id;
  std::string name;
  QosClassId qos_class;  ///< of what no level has
  /// Empty: the tenant is not divided, and all its sessions draw on what it has as a whole.
  std::vector<std::unique_ptr<Level>> levels;
  /// Null: the class is the tenant's own, or another tenant's.
  Level* find_level(QosClassId wanted) const {
    for (const auto& level : levels)
      if (level->qos_class == wanted) return level.get();
    return nullptr;
  }
  struct Address {
    Gid gid;
    std::optional<PortId> port;  ///< none: reachable only inside this daemon
    bool operator==(const Address&) const = default;
  };
  std::vector<Address> addresses;  ///< the GID table, by index
  /// Addresses that are no longer in the table, but kept by queue pairs and address handles made
  /// before.
  std::vector<Address> former_addresses;
  /// Does the tenant have an address on the network of `port` (none: inside this daemon alone)?
  bool is_on(std::optional<PortId> port) const {
    return std::any_of(addresses.begin(), addresses.end(),
                       [&](const Address& address) { return address.port == port; });
  }
  /// Is `gid` an address or a former address of the tenant, on `port` if one is named?
  bool has_address(const Gid& gid, std::optional<PortId> port = {}) const {
    return is_in(addresses, gid, port) || is_in(former_addresses, gid, port);
  }
  /// May a peer name `named` to reach a queue pair whose address is `used`? Only `used` itself,
  /// unless the two differ because of a change of addresses: a program tells its peer the address
  /// that it reads and connects by the index it has read, and the change may come in between.
  bool answers_to(const Gid& used, const Gid& named, std::optional<PortId> port) const {
    return used == named ||
           ((is_in(former_addresses, used, port) || is_in(former_addresses, named, port)) &&
            has_address(named, port));
  }
  static bool is_in(const std::vector<Address>& list, const Gid& gid, std::optional<PortId> port) {
    return std::any_of(list.begin(), list.end(), [&](const Address& address) {
      return address.gid == gid && (!port || address.port == port);
    });
  }
  Marking marking;           ///< of its packets
  bool yields = false;       ///< leaving: another tenant with one of its addresses beats it
  bool lends = false;        ///< guarantees that it leaves idle (A10)
  SrqPolicy receive_policy;  ///< of its shared receive queues
  SrqRules receive_rules;
  Time next_receive_report{};  ///< what its queues tell unasked waits until then
  TenantCounters counters;
  RateGate rate;
  transport::KeptAccount kept;  ///< packets of peers, ahead of their turn
  PeerGates peer_rates;
  RateGate slow_memory;               ///< closed: see SlowMemory
  Time memory_suspected_until{};      ///< see MeasuredMemory
  std::uint32_t waiting_packets = 0;  ///< see WaitingPackets

  TenantControl control;  ///< not for the engine
};

}  // namespace softhca::engine
