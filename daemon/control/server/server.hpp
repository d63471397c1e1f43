// The control thread: its loop, and the parts that serve what is ready. server_tenants.cpp: tenants
// that come, change and go.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/admin/admin_captures.hpp"
#include "daemon/control/admin/admin_connections.hpp"
#include "daemon/control/admin/admin_faults.hpp"
#include "daemon/control/admin/admin_socket.hpp"
#include "daemon/control/admin/admin_view.hpp"
#include "daemon/control/server/channels.hpp"
#include "daemon/control/server/control_sockets.hpp"
#include "daemon/control/server/device_trees.hpp"
#include "daemon/control/server/event_loop.hpp"
#include "daemon/control/server/listeners.hpp"
#include "daemon/control/server/port_watch.hpp"
#include "daemon/control/server/sessions.hpp"
#include "daemon/control/services/connections.hpp"
#include "daemon/control/services/datagram_clients.hpp"
#include "daemon/control/services/general_services.hpp"

namespace softhca::control {

class Server {
 public:
  /// Both queue pairs are open and outlive the server.
  Server(Adapter& adapter, GeneralServices& general_services, GeneralServices& shared_datagrams);
  /// Leaves no folder of a tenant, also where a later part of the daemon could not start.
  ~Server();

  /// What the admin socket offers. Others add to it before open().
  AdminMethods& admin_methods() { return methods_; }
  /// `reload` is called at SIGHUP, `tick` about once a second.
  void on_reload(std::function<void()> reload) { reload_ = std::move(reload); }
  void on_tick(std::function<void()> tick) { ticked_ = std::move(tick); }
  /// Adds to what a tenant may ask for, beside `tenant.show`. To be called before open().
  void on_own_requests(ControlSockets::AddMethods add) { control_sockets_.on_open(std::move(add)); }

  /// Makes the folder, socket and device tree of every tenant. Errors say which path and why.
  Outcome open();
  /// Serves until SIGTERM or SIGINT. REQUIRES: both are blocked in all threads.
  Outcome run();

  // --- tenants that come, change and go (server_tenants.cpp); before run() or on its thread

  /// Makes folder, socket and device tree of a tenant, also of one that was closed.
  Outcome open_tenant(engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Takes its sockets, and those of its levels, away: no new connections. Sessions go on.
  void close_tenant(const engine::Tenant& tenant);
  /// Takes away what else there is of a tenant. REQUIRES: it is closed and has no connections.
  void forget_tenant(const engine::Tenant& tenant);
  /// The tenant's addresses have changed: the device tree says so, and its programs are told.
  void show_addresses(const engine::Tenant& tenant, AddressUpdate& update);
  /// Nothing happens if it has a connection manager. Errors: as Connections::add().
  Outcome serve_connections(engine::Tenant& tenant, const resource::TenantConfig& settings);
  /// Sets the tenant's limits on rdma_cm, and what its guarantees carry.
  void configure_connections(const engine::Tenant& tenant, const resource::TenantConfig& settings) {
    connections_.configure(tenant, settings);
  }
  /// A level of the tenant has another name now.
  void rename_level(const engine::Tenant& tenant, const std::string& from, const std::string& to);
  /// All connections of the tenant's programs: sessions, including those by sockets of its levels,
  /// and channels.
  std::uint64_t connections(const engine::Tenant& tenant) const;
  std::uint64_t connections(const engine::Level& level) const { return sessions_.count(level); }
  void end_sessions(const engine::Tenant& tenant);
  void end_sessions(const engine::Level& level) { sessions_.end(level); }
  /// As Connections::retire().
  bool retire(const engine::Tenant& tenant) { return connections_.retire(tenant); }

  Listeners& listeners() { return listeners_; }
  Sessions& sessions() { return sessions_; }
  Channels& channels() { return channels_; }
  ControlSockets& control_sockets() { return control_sockets_; }
  DeviceTrees& device_trees() { return device_trees_; }
  GeneralServices& general_services() { return general_services_; }
  GeneralServices& shared_datagrams() { return shared_datagrams_; }

 private:
  Outcome prepare_folder();
  Outcome open_tenants();
  Outcome open_admin();
  /// Handles at most one event, and what is due. Waits until `due` at most.
  Outcome step(Time due);
  Outcome leave();
  void take_signal();
  void tick();
  void serve_datagrams();
  void tick_datagrams(GeneralServices& services);

  Adapter& adapter_;
  GeneralServices& general_services_;
  GeneralServices& shared_datagrams_;
  EventLoop loop_;
  TenantLoops tenant_loops_{loop_};
  Connections connections_;
  DatagramClients datagram_clients_;
  bool datagrams_left_ = false;  ///< by the last look at them
  bool stop_ = false;            ///< a signal says so
  AdminMethods methods_;
  AdminView view_;
  ConnectionsView connections_view_;
  AdminCaptures captures_{adapter_};
  AdminFaults faults_{adapter_};
  AdminSocket admin_{methods_, adapter_.blocking_calls};
  UniqueFd signals_;
  struct {
    Watch signals, admin, captures, datagrams, blocking_calls;
  } watches_;
  Listeners listeners_;
  Channels channels_;
  Sessions sessions_;
  ControlSockets control_sockets_;
  DeviceTrees device_trees_;
  PortWatch port_watch_;
  std::function<void()> reload_;
  std::function<void()> ticked_;
};

}  // namespace softhca::control
