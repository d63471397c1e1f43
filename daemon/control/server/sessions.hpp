// The sessions of all tenants' programs.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/server/listeners.hpp"
#include "daemon/control/server/tenant_loops.hpp"
#include "daemon/control/session/session.hpp"

namespace softhca::control {

class Sessions {
 public:
  /// A connection is to be a channel instead of a session.
  using BecomeChannel = std::function<void(engine::Tenant& tenant, ChannelRequest request)>;
  /// Why a process is refused.
  using Complain = std::function<void(Listener& listener, const std::string& why)>;

  Sessions(Adapter& adapter, TenantLoops& loops, BecomeChannel become_channel, Complain complain)
      : adapter_(adapter),
        loops_(loops),
        become_channel_(std::move(become_channel)),
        complain_(std::move(complain)) {}

  /// A process has come by a socket.
  void add(Listener& listener, PeerSocket socket, const PeerIdentity& peer);
  void clear() { entries_.clear(); }

  std::vector<const Session*> all() const;
  /// Sessions of the level, and connections by its socket.
  std::uint64_t count(const engine::Level& level) const;
  /// Sessions of the tenant that belong to no level.
  std::uint64_t undivided(const engine::Tenant& tenant) const;
  /// The least number of the tenant's sessions. Without sessions: the number that the next session
  /// of any tenant will have.
  std::uint32_t oldest(const engine::Tenant& tenant) const;

  /// Sessions that take long to end are still counted until they have.
  void end(const engine::Tenant& tenant);
  void end(const engine::Level& level);

  /// To be called about once a second.
  void adjust_vcbs();

  /// Tells the operator of tenants whose memory keeps who reaches it waiting, about every 10 s. To
  /// be called about once a second.
  void tell_late_memory();

  // Tell the programs of the tenant.
  void report_link(const engine::Tenant& tenant, bool up);
  void report_addresses(const engine::Tenant& tenant);

 private:
  struct Entry {
    std::unique_ptr<Session> session;
    Listener* listener = nullptr;
    bool charged = true;  ///< for the descriptors of a session
    bool ending = false;
    Interest interest = Interest::kReadable;
    std::list<Entry>::iterator self;
    Watch socket;
    Watch process;
  };

  void serve(Entry& entry);
  void arm(Entry& entry, Interest interest);
  void end(Entry& entry) { end(entry, Turn()); }
  void end(Entry& entry, const Turn& turn);
  void finish(Entry& entry);
  static bool is_of(const Entry& entry, const engine::Level& level);
  /// Ends the entries for which which(entry) is true.
  template <class Which>
  void end_if(Which&& which);
  void note(const Session& session, const char* kind, const char* what);

  Adapter& adapter_;
  TenantLoops& loops_;
  BecomeChannel become_channel_;
  Complain complain_;
  SharedObjects shared_;  ///< outlives the sessions
  std::list<Entry> entries_;
  Time told_late_memory_{};
};

}  // namespace softhca::control
