// SPDX-License-Identifier: Apache-2.0

// The interface of the rdma_cm service to its surroundings, and the types of both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/addresses/port_table.hpp"

namespace softhca::management::rdma_cm {

/// An event channel of a process. Never 0, and unguessable.
using ChannelId = Id<struct ChannelTag, std::uint32_t>;

/// Identifies a request to resolve().
using ResolveCookie = Id<struct ResolveTag, std::uint64_t>;

/// The process that opened a channel, and its user.
struct ChannelOwner {
  pid_t process = 0;  ///< 0: unknown
  uid_t user = 0;
  bool may_bind_low_ports = false;  ///< ports below 1024
  std::string level;                ///< level of its tenant; empty: none
};

/// An address of the tenant.
struct TenantGid {
  Gid gid;
  std::uint8_t index = 0;  ///< in the GID table of its port, as programs see it
  std::uint8_t port = 1;   ///< of its device, as programs number it
};

/// A device of the tenant as programs see it, and the port of an address.
struct TenantAdapter {
  std::uint64_t node_guid = 0;  ///< the wire bytes read as one big-endian number
  std::uint8_t port = 1;
  std::uint8_t path_mtu = 3;     ///< 1 to 5 for 256 to 4096 bytes
  std::uint8_t packet_rate = 0;  ///< code of the path rate
};

enum class Role : std::uint8_t { kActive, kPassive };

/// The limit of the tenant because of which a request of a process or a peer failed.
enum class Refusal : std::uint8_t {
  kIdentifiers,  ///< a process: EMFILE; a peer: no answer
  kListeners,    ///< ENOSPC
  kBacklog,      ///< a peer: no answer
  kConnectRate,  ///< a process: EAGAIN; a peer: no answer
  kAdmission,    ///< a process: ENOBUFS; a peer: REJ "no resources"
  kConnections,  ///< limit of the connection manager. A process: ENOMEM; a peer: no answer
  kHalfOpen,     ///< a peer: no answer
  kPeers,        ///< a peer, while others have half-open connections too: no answer
  kEvents,       ///< a process that does not read its events: ENOMEM
  kCount,
};

/// Returns its name in metrics and messages.
const char* name_of(Refusal refusal);

struct RdmaCmLimits {
  /// Most identifiers, including requests in a backlog; also the most group memberships. At most
  /// 65,536, the most that librdmacm can address.
  std::uint32_t identifiers = 65536;
  std::uint32_t listeners = 1024;
  std::uint32_t backlog = 1024;           ///< of one listener
  std::uint32_t connects_per_second = 0;  ///< both roles; 0: no limit
  PortRange ephemeral;                    ///< read only at the start
};

/// During these calls, the only call to the service allowed is resolved(), from resolve().
class RdmaCmEnvironment : public cm::CmEnvironment {
 public:
  /// Reports that the event queue of a channel got its first event.
  virtual void signal(ChannelId channel) = 0;

  /// Returns the addresses in order of preference: the first of a family replaces 127.0.0.1 or ::1.
  virtual std::span<const TenantGid> addresses() const = 0;
  /// Returns the tenant's device and port that have the address `own`; the first if none has it.
  virtual TenantAdapter adapter(const std::optional<Gid>& own) const = 0;
  /// True if a process of this user may report the queue pair to peers. Programs that connect
  /// without a queue pair use numbers that no queue pair has.
  virtual bool may_name_queue_pair(Qpn qpn, uid_t user) const = 0;
  /// Returns the tenant's source address for packets to `destination`, a group or another host.
  virtual std::optional<Gid> source_for(const Gid& destination) const = 0;
  /// Returns the tenant's networks of a family as text, for a destination without a source:
  /// "10.0.0.1/24, 198.18.0.1 (inside this daemon only)".
  virtual std::string networks(bool ipv4) const = 0;
  /// Finds out whether `destination` is reachable from `source`. Service::resolved() delivers the
  /// result, before this returns or later.
  virtual void resolve(const Gid& source, const Gid& destination, ResolveCookie cookie) = 0;

  // Events to be counted.
  virtual void note_refused(Refusal refusal) = 0;
  virtual void note_reject_sent(wire::CmRejectReason reason) = 0;
  virtual void note_reject_received(wire::CmRejectReason reason) = 0;
  virtual void note_unreachable(Role role) = 0;
  /// `took`: time since the program's CONNECT or the peer's REQ.
  virtual void note_established(Role role, Duration took) = 0;
};

}  // namespace softhca::management::rdma_cm
