// SPDX-License-Identifier: Apache-2.0

// The sockets by which programs reach a tenant or one of its levels. A program that connects to a
// level's socket belongs to that level.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/adapter/journal.hpp"
#include "daemon/frontend/unix/server/tenant_loops.hpp"
#include "daemon/frontend/unix/sockets/descriptors.hpp"
#include "daemon/frontend/unix/sockets/kept_listener.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

/// Return the permissions of a new socket, and of an existing one.
SocketPermissions permissions_of(const configuration::SocketConfig& socket);
SocketPermissions given_permissions(const configuration::SocketConfig& socket);

/// Returns the folder of a tenant's sockets and device tree.
std::string folder_of(const configuration::Config& config, const engine::Tenant& tenant);

/// Returns an error if another daemon serves a tenant of the configuration. Call it before the
/// daemon takes a resource that two daemons cannot share, so that the error names the real reason.
/// `kept`: has the sockets of an earlier adapter of this daemon.
Outcome check_free(const configuration::Config& config, const KeptDescriptors& kept);

struct Listener {
  PeerSocket socket;  ///< none: it is closed, and its sessions go on
  KeptDescriptor kept{};
  std::string path;
  engine::Tenant* tenant = nullptr;
  engine::Level* level = nullptr;  ///< the level that has the socket; null: the tenant itself
  std::uint64_t connections = 0;   ///< sessions that connected to it
  bool telling = false;       ///< it has an uncharged session, to report the lack of descriptors
  bool armed = true;          ///< the loop reports its connections
  ComplaintLimit complaints;  ///< about refused sessions
  Watch watch;
};

class Listeners {
 public:
  /// Called when a process has connected.
  using Accept =
      std::function<void(Listener& listener, PeerSocket socket, const PeerIdentity& peer)>;

  Listeners(Adapter& adapter, TenantLoops& loops, Accept accept)
      : adapter_(adapter), loops_(loops), accept_(std::move(accept)) {}

  // --- sockets of tenants

  /// Makes the folder and the socket, also for a tenant that was closed, or takes up the socket of
  /// an earlier adapter. Errors name the path and the reason.
  Outcome open(engine::Tenant& tenant, const configuration::SocketConfig& socket);
  /// Removes the sockets of the tenant and its levels: no new connections. Sessions go on.
  void close(const engine::Tenant& tenant);
  /// Drops the listeners of the tenant. REQUIRES: they are closed, and have no sessions.
  void forget(const engine::Tenant& tenant);
  /// Changes the permissions of the socket. Errors: unknown names, missing rights of the daemon.
  Outcome permit(const engine::Tenant& tenant, const configuration::SocketConfig& socket);
  /// Returns the number of connections by the sockets of the tenant and its levels.
  std::uint64_t connections(const engine::Tenant& tenant) const;

  // --- sockets of levels

  /// Makes the socket of a level. REQUIRES: the tenant is open.
  Outcome open(engine::Tenant& tenant, engine::Level& level,
               const configuration::SocketConfig& socket);
  /// Removes the level's socket, if it has one.
  void close(const engine::Level& level);
  void forget(const engine::Level& level);
  Outcome permit(const engine::Tenant& tenant, const engine::Level& level,
                 const configuration::SocketConfig& socket);

  /// Returns the listener of a level or, if its name is empty, of the tenant itself. Null: there is
  /// none.
  Listener* find(const std::string& tenant, const std::string& level);

  /// Watches again the sockets that could not accept a connection. Call it about once a second.
  void tick();
  /// Reports why a connection was refused, at a limited rate.
  void complain(Listener& listener, const std::string& why);

 private:
  Outcome open(const std::string& path, const configuration::SocketConfig& socket,
               engine::Tenant& tenant, engine::Level* level);
  Listener* find(const engine::Tenant& tenant, const engine::Level* level);
  std::string socket_of(const engine::Tenant& tenant, const engine::Level& level) const;
  void close(Listener& listener);
  void accept(Listener& listener);
  void accept_failed(Listener& listener, int error);
  void arm(Listener& listener, bool armed);

  Adapter& adapter_;
  TenantLoops& loops_;
  Accept accept_;
  std::list<Listener> listeners_;
  SpareDescriptor spare_;
};

}  // namespace softhca::control
