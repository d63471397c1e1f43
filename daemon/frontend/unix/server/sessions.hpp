// SPDX-License-Identifier: Apache-2.0

// The sessions of all tenants' programs.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/frontend/unix/server/listeners.hpp"
#include "daemon/frontend/unix/server/serve_session.hpp"
#include "daemon/frontend/unix/server/tenant_loops.hpp"
#include "daemon/frontend/unix/sockets/socket_peer.hpp"

namespace softhca::control {

class Sessions {
 public:
  /// Called for a connection that becomes a channel instead of a session.
  using BecomeChannel = std::function<void(engine::Tenant& tenant, std::unique_ptr<SocketPeer> peer,
                                           ChannelRequest request)>;
  /// Returns the listener of a tenant, or of its level if that is named. Null: there is none.
  using FindListener =
      std::function<Listener*(const std::string& tenant, const std::string& level)>;
  /// Reports why a process is refused.
  using Complain = std::function<void(Listener& listener, const std::string& why)>;

  Sessions(Adapter& adapter, TenantLoops& loops, BecomeChannel become_channel, Complain complain)
      : adapter_(adapter),
        loops_(loops),
        become_channel_(std::move(become_channel)),
        complain_(std::move(complain)) {}

  /// Adds the session of a process that has connected to a socket.
  void add(Listener& listener, PeerSocket socket, const PeerIdentity& peer);
  /// Adds a session of an earlier adapter by the record of its connection, without its objects. The
  /// session is served from start() on. If the record does not fit, its connection ends.
  void restore(records::Adopted& found, const FindListener& find_listener);
  /// Restores the objects of these sessions, as restore_sessions(). Closes the connections of those
  /// that are not complete, which end as any other then.
  Outcome restore_objects(std::span<records::Adopted> left);
  /// Returns the restored session of a connection. Null: there is none.
  DeviceSession* find(KeptId connection) const;
  /// Serves the restored sessions.
  Outcome start();
  void clear() { entries_.clear(); }

  std::vector<const DeviceSession*> all() const;
  /// Returns the number of sessions of the level, including connections by its socket.
  std::uint64_t count(const engine::Level& level) const;
  /// Returns the number of the tenant's sessions without level.
  std::uint64_t undivided(const engine::Tenant& tenant) const;
  /// Returns the least number of the tenant's sessions. Without sessions, returns the number of the
  /// next session of any tenant.
  std::uint32_t oldest(const engine::Tenant& tenant) const;

  /// End sessions. Those that take long to end are counted until they have ended.
  void end(const engine::Tenant& tenant);
  void end(const engine::Level& level);

  /// Gives VCBs to programs that lack them, and takes surplus ones back. Call it about once a
  /// second.
  void adjust_vcbs();

  /// Reports tenants with memory that delays its users, about every 10 s. Call it about once a
  /// second.
  void tell_late_memory();

  // Notify the programs of the tenant.
  void report_link(const engine::Tenant& tenant, std::uint8_t device, std::uint8_t port, bool up);
  void report_addresses(const engine::Tenant& tenant);

 private:
  struct Entry {
    records::Record record;  ///< of the connection
    std::unique_ptr<SocketPeer> peer;
    std::unique_ptr<DeviceSession> session;
    Listener* listener = nullptr;
    bool charged = true;  ///< the tenant is charged for the descriptors of the session
    bool ending = false;
    bool greets_again = false;  ///< its greeting of an earlier adapter counts for nothing
    SecondReply second;
    Interest interest = Interest::kReadable;
    std::list<Entry>::iterator self;
    Watch socket;
    Watch process;
  };

  Entry& enter(Listener& listener, std::unique_ptr<SocketPeer> peer,
               configuration::Charge descriptors);
  Outcome keep(Entry& entry);
  void write(Entry& entry);
  void settle_waiting(Entry& entry);
  Outcome start(Entry& entry);
  void serve(Entry& entry);
  void arm(Entry& entry, Interest interest);
  void end(Entry& entry) { end(entry, Turn()); }
  void end(Entry& entry, const Turn& turn);
  void finish(Entry& entry);
  static bool is_of(const Entry& entry, const engine::Level& level);
  /// Ends the entries for which which(entry) is true.
  template <class Which>
  void end_if(Which&& which);
  void note(const DeviceSession& session, const char* kind, const char* what);

  Adapter& adapter_;
  TenantLoops& loops_;
  BecomeChannel become_channel_;
  Complain complain_;
  SharedObjects shared_;  ///< outlives the sessions
  std::list<Entry> entries_;
  Time told_late_memory_{};
};

}  // namespace softhca::control
