// The control thread (server.cpp, server_tenants.cpp): tenant sockets, sessions and their ends, the
// admin socket, signals.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/admin/admin_connections.hpp"
#include "daemon/control/admin/admin_socket.hpp"
#include "daemon/control/admin/admin_view.hpp"
#include "daemon/control/device/counter_files.hpp"
#include "daemon/control/device/device_tree.hpp"
#include "daemon/control/services/connections.hpp"
#include "daemon/control/services/datagram_client.hpp"
#include "daemon/control/services/event_channel.hpp"
#include "daemon/control/services/general_services.hpp"
#include "daemon/control/session/session.hpp"
#include "daemon/control/sockets/descriptors.hpp"

namespace softhca::control {

/// For a socket that is made, and for one that there is.
SocketPermissions permissions_of(const resource::SocketConfig& socket);
SocketPermissions given_permissions(const resource::SocketConfig& socket);

class Server {
 public:
  /// Both queue pairs are open and outlive the server.
  Server(Adapter& adapter, GeneralServices& general_services, GeneralServices& shared_datagrams);

  /// What the admin socket offers. Others add to it before open().
  AdminMethods& admin_methods() { return methods_; }

  /// Makes the folder, socket and device tree of every tenant. Errors say which path and why.
  Outcome open();
  /// Serves until SIGTERM or SIGINT. REQUIRES: both are blocked in all threads.
  Outcome run();

  // --- tenants that come, change and go (server_tenants.cpp); before run() or on its thread

  /// Called at SIGHUP, and about once a second.
  void on_reload(std::function<void()> reload) { reload_ = std::move(reload); }
  void on_tick(std::function<void()> tick) { ticked_ = std::move(tick); }

  /// Makes folder, socket and device tree of a tenant; of one that was closed, anew.
  Outcome open_tenant(engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Takes its sockets, and those of its levels, away: no new connections. Sessions go on.
  void close_tenant(const engine::Tenant& tenant);
  /// Takes away what else there is of it. REQUIRES: it is closed and has no connections.
  void forget_tenant(const engine::Tenant& tenant);
  /// Changes who may open the socket. Errors: unknown names, permissions.
  Outcome permit(const engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Writes what the device tree will say. Errors: it cannot.
  Expected<AddressUpdate> prepare_addresses(
      const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const;
  /// Its addresses have changed: the device tree says so, and its programs are told.
  void show_addresses(const engine::Tenant& tenant, AddressUpdate& update);
  /// Nothing happens if it has a connection manager. Errors: as Connections::add().
  Outcome serve_connections(engine::Tenant& tenant, const resource::TenantConfig& settings);
  /// Its limits of rdma_cm, and what its guarantees carry.
  void configure_connections(const engine::Tenant& tenant, const resource::TenantConfig& settings);
  /// All that its programs have: sessions, those by sockets of its levels too, and channels.
  std::uint64_t connections(const engine::Tenant& tenant) const;
  std::uint64_t connections(const engine::Tenant& tenant, TenantChannel::Kind kind) const;
  std::uint64_t sessions(const engine::Tenant& tenant) const;
  /// The least number of a session of the tenant; none: that of the next session of any.
  std::uint32_t oldest_session(const engine::Tenant& tenant) const;
  void end_sessions(const engine::Tenant& tenant);
  /// As Connections::retire().
  bool retire(const engine::Tenant& tenant) { return connections_.retire(tenant); }

  GeneralServices& general_services() { return general_services_; }
  GeneralServices& shared_datagrams() { return shared_datagrams_; }

  // --- levels likewise (server_levels.cpp)

  /// Makes the socket of a level; of one that was closed, anew. REQUIRES: the tenant is open.
  Outcome open_level(engine::Tenant& tenant, engine::Level& level,
                     const resource::SocketConfig& socket);
  /// Nothing happens if it has no socket.
  void close_level(const engine::Level& level);
  /// REQUIRES: it has no connections.
  void forget_level(const engine::Level& level);
  Outcome permit(const engine::Tenant& tenant, const engine::Level& level,
                 const resource::SocketConfig& socket);
  /// Sessions of the level, and those that came by its socket.
  std::uint64_t connections(const engine::Level& level) const;
  /// Sessions that are of no level.
  std::uint64_t undivided_sessions(const engine::Tenant& tenant) const;
  void end_sessions(const engine::Level& level);

  // --- sockets by which tenants ask for what is their own (server_desks.cpp)

  /// Adds to what a tenant may ask for, beside `tenant.show`. Before open().
  using OwnMethods = std::function<void(AdminMethods&, const engine::Tenant&)>;
  void on_own_requests(OwnMethods add) { own_methods_ = std::move(add); }
  Outcome open_desk(const engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Nothing happens if there is none.
  void close_desk(const engine::Tenant& tenant);
  bool has_desk(const engine::Tenant& tenant) const;
  Outcome permit_desk(const engine::Tenant& tenant, const resource::SocketConfig& socket);

 private:
  struct Listener;
  struct Entry;
  struct ChannelEntry;
  struct Desk;
  /// What an epoll event is about.
  struct Watch {
    enum class Kind {
      kListener,
      kSession,
      kProcess,
      kChannel,
      kDatagrams,
      kSignal,
      kAdmin,
      kDesk,
    } kind;
    Listener* listener = nullptr;
    Entry* entry = nullptr;
    ChannelEntry* channel = nullptr;
    Desk* desk = nullptr;
  };
  struct Desk {
    Desk(const engine::Tenant& of, AdminSocket::Limits limits)
        : tenant(&of), socket(methods, limits) {}
    const engine::Tenant* tenant;
    AdminMethods methods;
    AdminSocket socket;
    Watch watch{Watch::Kind::kDesk};
  };
  struct Listener {
    UniqueFd socket;
    std::string path;
    engine::Tenant* tenant = nullptr;
    engine::Level* level = nullptr;  ///< whose socket it is; none: the tenant's
    std::uint64_t connections = 0;
    bool telling = false;                  ///< one for whom no descriptors are left that it is so
    bool armed = true;                     ///< epoll reports its connections
    bool link_up = true;                   ///< as last seen
    std::optional<CounterFiles> counters;  ///< of a tenant
    bool counters_fail = false;            ///< to be written; it has been said
    ComplaintLimit complaints;             ///< of sessions refused
    Watch watch{Watch::Kind::kListener};
  };
  struct Entry {
    std::unique_ptr<Session> session;
    Listener* listener = nullptr;
    bool charged = true;  ///< for the descriptors of a session
    std::list<Entry>::iterator self;
    Watch socket;
    Watch process;
  };

  struct ChannelEntry {
    std::unique_ptr<TenantChannel> channel;
    std::list<ChannelEntry>::iterator self;
    Watch socket;
  };

  // server_connections.cpp
  void add_channel(engine::Tenant& tenant, ChannelRequest request);
  void serve_channel(ChannelEntry& entry);
  void serve_datagrams();
  void tick_datagrams(GeneralServices& services);
  void end_channels(const engine::Tenant& tenant);
  void end_event_channels(const engine::Tenant& tenant);

  Outcome open_admin();
  /// Handles at most one event, and what is due. It waits no longer than until `due`.
  Outcome step(Time due, bool& stop);
  Outcome take_leave();
  void serve_desk(Desk& desk);
  void tick_desks();
  void watch_desk(Desk& desk, bool armed);
  static bool is_of(const Entry& entry, const engine::Level& level);
  Listener* listener_of(const engine::Level& level);
  std::string socket_of(const engine::Tenant& tenant, const engine::Level& level) const;
  Listener* listener_of(const engine::Tenant& tenant);
  const Listener* listener_of(const engine::Tenant& tenant) const;
  DeviceDescription describe(const engine::Tenant& tenant,
                             const std::vector<engine::Tenant::Address>& addresses) const;
  std::string folder_of(const engine::Tenant& tenant) const;
  std::vector<const Session*> sessions() const;
  void note(const Session& session, const char* kind, const char* what);
  Outcome watch(int fd, Watch* what);
  void accept(Listener& listener);
  void accept_failed(Listener& listener, int error);
  void add_session(Listener& listener, UniqueFd socket, const PeerIdentity& peer);
  /// Says why a connection was refused, not too often.
  void complain(Listener& listener, const std::string& why);
  void handle(const Watch& what, bool& stop);
  void serve(Entry& entry);
  void end(Entry& entry);
  std::string tree_of(const engine::Tenant& tenant) const;

  /// What is looked at once a second.
  void tick();
  void arm(Listener& listener, bool armed);
  void check_devices();
  /// Tells the sessions of tenants whose link went up or down.
  void check_links();
  void write_counters();

  Adapter& adapter_;
  GeneralServices& general_services_;
  GeneralServices& shared_datagrams_;
  SharedObjects shared_objects_;  ///< outlive the sessions
  Connections connections_;
  DatagramClients datagram_clients_;
  bool datagrams_left_ = false;  ///< by the last look at them
  AdminMethods methods_;
  AdminView view_;
  ConnectionsView connections_view_;
  AdminSocket admin_{methods_};
  UniqueFd epoll_;
  UniqueFd signals_;
  Watch signal_watch_{Watch::Kind::kSignal};
  Watch admin_watch_{Watch::Kind::kAdmin};
  Watch datagram_watch_{Watch::Kind::kDatagrams};
  std::list<Listener> listeners_;
  std::list<Entry> sessions_;
  std::list<ChannelEntry> channels_;
  std::list<Desk> desks_;
  OwnMethods own_methods_;
  SpareDescriptor spare_;
  std::vector<std::string> real_devices_;  ///< of the kernel, as last seen
  std::function<void()> reload_;
  std::function<void()> ticked_;
};

}  // namespace softhca::control
