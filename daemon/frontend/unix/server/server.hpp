// SPDX-License-Identifier: Apache-2.0

// The control thread: its loop, and the parts that serve ready descriptors. server_tenants.cpp has
// tenants that come, change and go.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/frontend/unix/server/channels.hpp"
#include "daemon/frontend/unix/server/control_sockets.hpp"
#include "daemon/frontend/unix/server/device_trees.hpp"
#include "daemon/frontend/unix/server/event_loop.hpp"
#include "daemon/frontend/unix/server/listeners.hpp"
#include "daemon/frontend/unix/server/port_watch.hpp"
#include "daemon/frontend/unix/server/sessions.hpp"
#include "daemon/operate/admin/admin_captures.hpp"
#include "daemon/operate/admin/admin_connections.hpp"
#include "daemon/operate/admin/admin_faults.hpp"
#include "daemon/operate/admin/admin_socket.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/services/connections.hpp"
#include "daemon/services/datagram_clients.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

class Server {
 public:
  /// REQUIRES: both queue pairs are open and outlive the server.
  Server(Adapter& adapter, GeneralServices& general_services, GeneralServices& shared_datagrams);
  /// Removes the folders of all tenants, also if a later part of the daemon could not start.
  ~Server();

  /// Returns the methods of the admin socket. Other parts add theirs before open().
  AdminMethods& admin_methods() { return methods_; }
  AdminView& admin_view() { return view_; }
  /// Set the functions that are called at SIGHUP and about once a second.
  void on_reload(std::function<void()> reload) { reload_ = std::move(reload); }
  void on_tick(std::function<void()> tick) { ticked_ = std::move(tick); }
  /// Follows the keeper: gives signs of life by `pulse`, and calls `ready` when `orders` is
  /// readable. Call it after open().
  Outcome follow(Pulse& pulse, int orders, std::function<void()> ready);
  /// Adds methods for tenants' control sockets, besides `tenant.show` and `explain`. Call it before
  /// open().
  void on_own_requests(ControlSockets::AddMethods add) { control_sockets_.on_open(std::move(add)); }

  /// Makes the folder, socket and device tree of every tenant. Errors name the path and the reason.
  Outcome open();
  /// Takes up the connections of an earlier adapter, of which it takes the records, and serves them
  /// from now on. Ends what that adapter kept and this one has not taken up. Call it when all is
  /// open. A record that does not fit ends its connection. Errors: those of restore_sessions(), and
  /// of epoll_ctl(2).
  Outcome restore(std::span<records::Adopted> left);
  enum class End : std::uint8_t {
    kNone,
    kOrderly,
    /// For the adapter that follows: no connection is ended, no file is removed. End the process
    /// then, without destroying the server.
    kRetire,
  };
  /// Serves until SIGTERM, SIGINT or stop(), and returns how it ended. REQUIRES: both signals are
  /// blocked in all threads.
  Expected<End> run();
  /// Ends run(), kOrderly as SIGTERM does. Call it in a function that run() calls.
  void stop(End how) { end_ = how; }

  // --- tenants that come, change and go (server_tenants.cpp); before run() or on its thread

  /// Makes the folder, socket and device tree of a tenant, also of one that was closed.
  Outcome open_tenant(engine::Tenant& tenant, const configuration::SocketConfig& socket);
  /// Removes the sockets of the tenant and its levels: no new connections. Sessions go on.
  void close_tenant(const engine::Tenant& tenant);
  /// Removes the rest of a tenant. REQUIRES: it is closed and has no connections.
  void forget_tenant(const engine::Tenant& tenant);
  /// Updates the tenant's device tree after a change of addresses, and notifies its programs.
  void show_addresses(const engine::Tenant& tenant, AddressUpdate& update);
  /// Adds a connection manager for the tenant, unless it has one. Errors: as Connections::add().
  Outcome serve_connections(engine::Tenant& tenant, const configuration::TenantConfig& settings);
  /// Sets the tenant's limits on rdma_cm, and how many connections its guarantees carry.
  void configure_connections(const engine::Tenant& tenant,
                             const configuration::TenantConfig& settings) {
    connections_.configure(tenant, settings);
  }
  /// Renames a level in the tenant's connection manager.
  void rename_level(const engine::Tenant& tenant, const std::string& from, const std::string& to);
  /// Returns the number of all connections of the tenant's programs: sessions, including those by
  /// sockets of its levels, and channels.
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
  /// Handles at most one event, and expired deadlines. Waits until `due` at most.
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
  bool datagrams_left_ = false;  ///< the last poll left some
  End end_ = End::kNone;         ///< that is requested of run()
  AdminMethods methods_;
  AdminView view_;
  ConnectionsView connections_view_;
  AdminCaptures captures_{adapter_};
  AdminFaults faults_{adapter_};
  AdminSocket admin_{methods_, adapter_.blocking_calls};
  UniqueFd signals_;
  struct {
    Watch signals, admin, captures, datagrams, blocking_calls, orders;
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
