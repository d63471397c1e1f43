// The ports of one port space of a tenant, and the identifiers that hold them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "daemon/base/bit_set.hpp"
#include "daemon/management/rdma_cm/socket_address.hpp"

namespace softhca::management::rdma_cm {

/// Ephemeral ports, given where port 0 is asked for; both ends included.
struct PortRange {
  std::uint16_t first = 32768;  // as Linux has it
  std::uint16_t last = 60999;
};

/// The rules are those of Linux's rdma_cm, where a wildcard stands against every other address
/// (EADDRNOTAVAIL) and an address against itself (EADDRINUSE). Two holders may share a port if both
/// may reuse it, or if each keeps to its own family and the families differ.
class PortTable {
 public:
  /// One identifier's hold of a port.
  struct Claim {
    SocketAddress at;      ///< its port is the one claimed; 0 in bind_any()
    bool reuse = false;    ///< REUSEADDR
    bool af_only = false;  ///< keeps to its family
  };

  explicit PortTable(PortRange range = {});

  /// 0, EADDRINUSE or EADDRNOTAVAIL. REQUIRES: `owner` holds no port of this table; port not 0.
  int bind(std::uint32_t owner, const Claim& claim);
  /// A port of the range that nobody holds, searched from a place that `random` chooses; 0 when all
  /// are taken.
  std::uint16_t bind_any(std::uint32_t owner, Claim claim, std::uint32_t random);
  /// From now on others cannot share the port by REUSEADDR: 0, or what bind() would say to a
  /// claim that does not reuse. REQUIRES: `owner` holds `port`.
  int listen(std::uint32_t owner, std::uint16_t port);
  /// The owner's wildcard has become an address, or its options have changed. This is not checked,
  /// and counts for claims that follow. REQUIRES: `owner` holds the claim's port.
  void change(std::uint32_t owner, const Claim& claim);
  /// Nothing happens if `owner` does not hold the port.
  void release(std::uint32_t owner, std::uint16_t port);

 private:
  struct Port {
    std::unordered_map<std::uint32_t, Claim> claims;  ///< by owner
    std::size_t exclusive = 0;                        ///< those of them that do not reuse
  };

  static int conflict(const Port& port, std::uint32_t owner, const Claim& claim);
  void insert(std::uint32_t owner, const Claim& claim);

  /// Is the port one of the range? Its bit in `unused_`.
  bool in_range(std::uint16_t port) const;

  PortRange range_;
  BitSet unused_;  ///< ports of the range that nobody holds
  std::unordered_map<std::uint16_t, Port> ports_;
};

}  // namespace softhca::management::rdma_cm
