// SPDX-License-Identifier: Apache-2.0

// The object behind a program's rdma_cm_id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/rdma_cm/addresses/socket_address.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

/// Number that programs use for an identifier.
using IdentifierNumber = Id<struct IdentifierTag, std::uint32_t>;
/// Number that programs use for a group membership.
using MembershipNumber = Id<struct MembershipTag, std::uint32_t>;

enum class PortSpace : std::uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111 };

/// Q_Key of all datagram queue pairs of rdma_cm.
inline constexpr std::uint32_t kDatagramQkey = 0x01234567;

enum class IdentifierState : std::uint8_t {
  kIdle,
  kBound,
  kResolvingAddress,
  kAddressResolved,
  kRouteResolved,
  kConnect,     ///< after CONNECT or the peer's request
  kDisconnect,  ///< DISCONNECTED was reported to the program
  kListen,
  kRemoved,  ///< the adapter is gone
};

const char* name_of(IdentifierState state);

/// Contents of a path record except the addresses.
struct ResolvedRoute {
  std::uint8_t mtu = 3;
  std::uint8_t rate = 0;
  std::uint8_t packet_life_time = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t sl = 0;
};

struct Identifier {
  IdentifierNumber number;
  std::uint32_t generation = 0;  ///< differs from that of all earlier ones with this number
  ChannelId channel;             ///< 0: a request not yet reported to the program
  /// The program's id in events. 0: no events are queued, as for a request until it is accepted.
  std::uint64_t uid = 0;
  PortSpace space{};
  IdentifierState state = IdentifierState::kIdle;

  SocketAddress local;
  SocketAddress remote;
  /// GID of `local`, set if that is an address of the tenant and not a wildcard.
  std::optional<Gid> source;
  bool address_gone = false;   ///< this was reported to the program
  bool holds_port = false;     ///< `local.port` in the port table
  bool loopback_only = false;  ///< bound to a loopback address
  std::optional<ResolvedRoute> route;

  struct Options {
    std::uint8_t traffic_class = 0;
    bool reuse_address = false;
    std::optional<bool> af_only;
    std::optional<std::uint8_t> ack_timeout;
  } options{};

  /// State while the neighbour is being resolved.
  struct Resolution {
    Gid source;  ///< becomes the identifier's source if the neighbour is reachable
    Time deadline = kNever;
  } resolution{};

  struct Listener {
    std::uint32_t backlog = 0;
    std::uint32_t waiting = 0;  ///< requests not yet reported to the program
  } listener{};

  struct Connection {
    std::optional<Role> role;             ///< set with the first connection
    std::optional<cm::CommId> id;         ///< while the connection manager has it
    std::optional<std::string> admitted;  ///< level for which admission counts it
    std::optional<Gid> half_open;         ///< peer for which admission counts it as half-open
    Qpn qpn;
    bool srq = false;
    Psn local_psn;   ///< first PSN of the peer, sent to it in REQ or REP
    Psn remote_psn;  ///< from the peer's REQ or REP
    Time began;
  } connection{};

  /// Sequence numbers of its events in the channel's queue, in order.
  std::vector<std::uint64_t> queued;
  std::uint32_t events_reported = 0;
  std::vector<MembershipNumber> memberships;

  /// True if it holds its port for one address family only. IPv4 always does; IPv6 holds both
  /// unless an option limits it.
  bool keeps_to_family() const { return options.af_only.value_or(local.family == AF_INET); }
  bool is_datagram() const { return space != PortSpace::kTcp; }
  std::uint64_t service_id(std::uint16_t port) const {
    return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
  }
  /// Returns an id of this identifier that no later one with the same number has.
  std::uint64_t cookie() const { return std::uint64_t{generation} << 32 | number.value; }
};

/// Membership of an identifier in a multicast group.
struct Membership {
  IdentifierNumber owner;
  std::uint64_t uid = 0;  ///< in its events
  std::uint32_t events_reported = 0;
};

}  // namespace softhca::management::rdma_cm
