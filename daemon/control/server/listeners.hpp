// The sockets by which programs reach a tenant or, by one of its own, a level: a program that comes
// by a level's socket belongs to that level.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/journal.hpp"
#include "daemon/control/server/tenant_loops.hpp"
#include "daemon/control/sockets/descriptors.hpp"
#include "daemon/control/sockets/peer_socket.hpp"
#include "daemon/control/sockets/unix_socket.hpp"

namespace softhca::control {

/// Permissions for a socket that is being made, and for one that exists.
SocketPermissions permissions_of(const resource::SocketConfig& socket);
SocketPermissions given_permissions(const resource::SocketConfig& socket);

/// Where sockets and device tree of a tenant are.
std::string folder_of(const resource::Config& config, const engine::Tenant& tenant);

struct Listener {
  PeerSocket socket;  ///< none: it is closed, and its sessions go on
  std::string path;
  engine::Tenant* tenant = nullptr;
  engine::Level* level = nullptr;  ///< the level it is the socket of; null: the tenant itself
  std::uint64_t connections = 0;   ///< sessions that came by it
  bool telling = false;            ///< refusing one for lack of descriptors
  bool armed = true;               ///< the loop reports its connections
  ComplaintLimit complaints;       ///< about sessions refused
  Watch watch;
};

class Listeners {
 public:
  /// A process has come.
  using Accept =
      std::function<void(Listener& listener, PeerSocket socket, const PeerIdentity& peer)>;

  Listeners(Adapter& adapter, TenantLoops& loops, Accept accept)
      : adapter_(adapter), loops_(loops), accept_(std::move(accept)) {}

  // --- of tenants

  /// Makes the folder and the socket, also for a tenant that was closed. Errors say which path and
  /// why.
  Outcome open(engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Takes its sockets, and those of its levels, away: no new connections. Sessions go on.
  void close(const engine::Tenant& tenant);
  /// REQUIRES: they are closed, and have no sessions.
  void forget(const engine::Tenant& tenant);
  /// Changes who may open the socket. Errors: unknown names, permissions.
  Outcome permit(const engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Connections by the tenant's socket and by those of its levels.
  std::uint64_t connections(const engine::Tenant& tenant) const;

  // --- of levels

  /// REQUIRES: the tenant is open.
  Outcome open(engine::Tenant& tenant, engine::Level& level, const resource::SocketConfig& socket);
  /// Nothing happens if it has no socket.
  void close(const engine::Level& level);
  void forget(const engine::Level& level);
  Outcome permit(const engine::Tenant& tenant, const engine::Level& level,
                 const resource::SocketConfig& socket);

  /// About once a second: looks again at the listeners that could not accept a connection.
  void tick();
  /// Says why a connection was refused, not too often.
  void complain(Listener& listener, const std::string& why);

 private:
  Outcome open(const std::string& path, const resource::SocketConfig& socket,
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
