// What the service of rdma_cm asks of the world around it, and the words both sides use.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/port_table.hpp"

namespace softhca::management::rdma_cm {

/// An event channel of a process. Never 0, and not to be guessed.
using ChannelId = Id<struct ChannelTag, std::uint32_t>;

/// Names a request to resolve().
using ResolveCookie = Id<struct ResolveTag, std::uint64_t>;

/// The process that opened a channel, and its user.
struct ChannelOwner {
  pid_t process = 0;  ///< 0: not known
  uid_t user = 0;
  bool may_bind_low_ports = false;  ///< those below 1024
  std::string level;                ///< of its tenant; empty: of none
};

/// An address of the tenant.
struct LocalAddress {
  Gid gid;
  std::uint8_t index = 0;  ///< in the table of GIDs that programs see
};

/// The tenant's adapter as programs see it.
struct Adapter {
  std::uint64_t node_guid = 0;   ///< in the order of the wire's bytes read as one number
  std::uint8_t path_mtu = 3;     ///< 1 to 5 for 256 to 4096 bytes
  std::uint8_t packet_rate = 0;  ///< code of a path's rate
};

enum class Role : std::uint8_t { kActive, kPassive };

/// The limit of the tenant that made a request of a process or a peer fail.
enum class Refusal : std::uint8_t {
  kIdentifiers,  ///< a process: EMFILE; a peer: no answer
  kListeners,    ///< ENOSPC
  kBacklog,      ///< a peer: no answer
  kConnectRate,  ///< a process: EAGAIN; a peer: no answer
  kAdmission,    ///< a process: ENOBUFS; a peer: REJ "no resources"
  kConnections,  ///< those of the connection manager. A process: ENOMEM; a peer: no answer
  kHalfOpen,     ///< a peer: no answer
  kPeers,        ///< a peer, beside others whose connections are half-open, too: no answer
  kEvents,       ///< a process does not take its events. ENOMEM
  kCount,
};

/// The word for it in metrics and messages.
const char* name_of(Refusal refusal);

struct Limits {
  /// Identifiers, requests that wait in a backlog included; and as many group memberships. No more
  /// than 65,536, above which librdmacm cannot find an identifier.
  std::uint32_t identifiers = 65536;
  std::uint32_t listeners = 1024;
  std::uint32_t backlog = 1024;           ///< of one listener
  std::uint32_t connects_per_second = 0;  ///< both roles; 0: no limit
  PortRange ephemeral;                    ///< read at the start only
};

/// Within these calls the service may be called for nothing but resolved(), from resolve().
class Environment : public cm::Environment {
 public:
  /// The event queue of a channel was empty, and no longer is.
  virtual void signal(ChannelId channel) = 0;

  /// In order of preference: the first of a family is the one that 127.0.0.1 or ::1 stands for.
  virtual std::span<const LocalAddress> addresses() const = 0;
  virtual Adapter adapter() const = 0;
  /// True if a process of this user may name the queue pair to peers. Programs that connect without
  /// one name numbers that no queue pair has.
  virtual bool may_name_queue_pair(Qpn qpn, uid_t user) const = 0;
  /// The tenant's address from which packets to `destination`, a group or another's address, are
  /// sent.
  virtual std::optional<Gid> source_for(const Gid& destination) const = 0;
  /// Finds out whether `destination` can be reached from `source`. The answer comes by
  /// Service::resolved(), before this returns or later.
  virtual void resolve(const Gid& source, const Gid& destination, ResolveCookie cookie) = 0;

  // What happened, to be counted.
  virtual void note_refused(Refusal refusal) = 0;
  virtual void note_reject_sent(wire::CmRejectReason reason) = 0;
  virtual void note_reject_received(wire::CmRejectReason reason) = 0;
  virtual void note_unreachable(Role role) = 0;
  /// `took`: from the program's CONNECT, or the peer's REQ.
  virtual void note_established(Role role, Duration took) = 0;
};

}  // namespace softhca::management::rdma_cm
