// SPDX-License-Identifier: Apache-2.0

// The ports of one port space of a tenant, and the identifiers that hold them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "daemon/base/bit_set.hpp"
#include "daemon/roce/rdma_cm/addresses/socket_address.hpp"

namespace softhca::management::rdma_cm {

/// Range of ephemeral ports, which are assigned for port 0; both ends included.
struct PortRange {
  std::uint16_t first = 32768;  // as in Linux
  std::uint16_t last = 60999;
};

/// Applies the rules of Linux's rdma_cm: a wildcard conflicts with every other address
/// (EADDRNOTAVAIL), an address with itself (EADDRINUSE). Two holders may share a port if both may
/// reuse it, or if each is limited to its own family and the families differ.
class PortTable {
 public:
  /// The claim of one identifier on a port.
  struct Claim {
    SocketAddress at;      ///< its port is the one claimed; 0 in bind_any()
    bool reuse = false;    ///< REUSEADDR
    bool af_only = false;  ///< limited to its family
  };

  explicit PortTable(PortRange range = {});

  /// What keeps a claim from its port.
  struct Conflict {
    int error = 0;            ///< EADDRINUSE or EADDRNOTAVAIL; 0: nothing
    std::uint32_t owner = 0;  ///< of the claim in the way
  };

  /// REQUIRES: `owner` holds no port of this table; port is not 0.
  Conflict bind(std::uint32_t owner, const Claim& claim);
  /// Assigns a free port of the range, searching from a position that `random` chooses. Returns 0
  /// if all are taken.
  std::uint16_t bind_any(std::uint32_t owner, Claim claim, std::uint32_t random);
  /// Ends the sharing of the port by REUSEADDR, if nothing keeps a claim without reuse from it.
  /// REQUIRES: `owner` holds `port`.
  Conflict listen(std::uint32_t owner, std::uint16_t port);
  /// Updates a claim after its wildcard became an address, or its options changed. The update is
  /// not checked; later claims are checked against it. REQUIRES: `owner` holds the claim's port.
  void change(std::uint32_t owner, const Claim& claim);
  /// Does nothing if `owner` does not hold the port.
  void release(std::uint32_t owner, std::uint16_t port);
  const PortRange& range() const { return range_; }

 private:
  struct Port {
    std::unordered_map<std::uint32_t, Claim> claims;  ///< by owner
    std::size_t exclusive = 0;                        ///< claims without reuse
  };

  static Conflict conflict(const Port& port, std::uint32_t owner, const Claim& claim);
  void insert(std::uint32_t owner, const Claim& claim);

  /// True if the port is in the range and thus has a bit in `unused_`.
  bool in_range(std::uint16_t port) const;

  PortRange range_;
  BitSet unused_;  ///< free ports of the range
  std::unordered_map<std::uint16_t, Port> ports_;
};

}  // namespace softhca::management::rdma_cm
