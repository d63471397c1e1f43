// SPDX-License-Identifier: Apache-2.0

// A tenant. All members except `control` belong to the engine: only its thread, or a
// request to it, changes them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/records/counters.hpp"
#include "daemon/engine/records/level.hpp"
#include "daemon/engine/records/rate_gate.hpp"
#include "daemon/engine/records/tenant_control.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/receive/provisioner.hpp"
#include "daemon/roce/transport/reliable/kept_packets.hpp"
#include "daemon/roce/wire/marking.hpp"

namespace softhca::engine {

/// A tenant as the engine sees it.
struct Tenant {
  TenantId id;
  std::string name;
  QosClassId qos_class;  ///< for queue pairs that belong to no level
  /// Empty: the tenant has no levels, and all its sessions share its allocation.
  std::vector<std::unique_ptr<Level>> levels;
  /// Returns the level with this class. Null: the class is the tenant's own, or another tenant's.
  Level* find_level(QosClassId wanted) const {
    for (const auto& level : levels)
      if (level->qos_class == wanted) return level.get();
    return nullptr;
  }
  struct Address {
    Gid gid;
    std::optional<PortId> port;    ///< none: reachable only inside this daemon
    std::uint8_t device = 0;       ///< the tenant's device that has it
    std::uint8_t device_port = 1;  ///< the port of that device, as programs number it
    bool operator==(const Address&) const = default;
  };
  std::vector<Address> addresses;  ///< the GID tables of its devices, one after the other
  /// Addresses that were removed from the table, but that older queue pairs and address handles
  /// still use.
  std::vector<Address> former_addresses;
  /// True if the tenant has an address on the network of `port` (none: only inside this daemon).
  bool is_on(std::optional<PortId> port) const {
    return std::any_of(addresses.begin(), addresses.end(),
                       [&](const Address& address) { return address.port == port; });
  }
  /// True if `gid` is an address or a former address of the tenant, on `port` if it is given.
  bool has_address(const Gid& gid, std::optional<PortId> port = {}) const {
    return find_address(gid, port) != nullptr;
  }
  /// Returns the address or former address with this GID, on `port` if it is given. Null: the
  /// tenant has none.
  const Address* find_address(const Gid& gid, std::optional<PortId> port = {}) const {
    const Address* const found = find_in(addresses, gid, port);
    return found != nullptr ? found : find_in(former_addresses, gid, port);
  }
  /// True if a peer may use `used` to reach a queue pair for which its program named `named`.
  /// That is so if both are equal, or if a change of the addresses of a device made them differ. A
  /// program reads its address, tells it to its peer, and connects by the index of that address;
  /// the address at that index may change in between.
  bool answers_to(const Gid& named, const Gid& used, std::optional<PortId> port) const {
    if (named == used) return true;
    const Address* const own = find_address(named, port);
    const Address* const other = find_address(used, port);
    return own != nullptr && other != nullptr && own->device == other->device &&
           (find_in(former_addresses, named, port) != nullptr ||
            find_in(former_addresses, used, port) != nullptr);
  }
  static const Address* find_in(const std::vector<Address>& list, const Gid& gid,
                                std::optional<PortId> port) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Address& address) {
      return address.gid == gid && (!port || address.port == *port);
    });
    return found != list.end() ? &*found : nullptr;
  }
  Marking marking;           ///< marking of its packets
  bool yields = false;       ///< leaving: another tenant with the same address has precedence
  bool lends = false;        ///< whether it lends idle guarantees (A10)
  SrqPolicy receive_policy;  ///< policy of its shared receive queues
  SrqRules receive_rules;
  Time next_receive_report{};  ///< no report that the operator did not request before then
  TenantCounters counters;
  RateGate rate;
  transport::KeptAccount kept;  ///< its out-of-order packets from peers
  PeerGates peer_rates;
  RateGate slow_memory;               ///< closed: its memory is slow, see SlowMemory
  Time memory_suspected_until{};      ///< see MeasuredMemory
  std::uint32_t waiting_packets = 0;  ///< see WaitingPackets

  TenantControl control;  ///< the engine does not use it
};

}  // namespace softhca::engine
