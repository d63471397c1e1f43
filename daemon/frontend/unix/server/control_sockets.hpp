// SPDX-License-Identifier: Apache-2.0

// Sockets by which tenants change their own allocations (mechanism A7). They have the protocol of
// the admin socket, with few methods and narrow limits, since a tenant may send requests at any
// rate.
#pragma once

#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "daemon/frontend/unix/server/listeners.hpp"
#include "daemon/frontend/unix/server/tenant_loops.hpp"
#include "daemon/operate/admin/admin_socket.hpp"

namespace softhca::control {

class ControlSockets {
 public:
  /// Adds the methods that a tenant may call.
  using AddMethods = std::function<void(AdminMethods&, const engine::Tenant&)>;

  ControlSockets(Adapter& adapter, TenantLoops& loops) : adapter_(adapter), loops_(loops) {}

  /// Registers a function that adds methods. Call it before the first socket is opened.
  void on_open(AddMethods add) { add_.push_back(std::move(add)); }

  Outcome open(const engine::Tenant& tenant, const configuration::SocketConfig& socket);
  /// Closes the tenant's socket, if there is one.
  void close(const engine::Tenant& tenant);
  void clear() { entries_.clear(); }
  bool contains(const engine::Tenant& tenant) const;
  Outcome permit(const engine::Tenant& tenant, const configuration::SocketConfig& socket);

  /// Call it about once a second.
  void tick();

 private:
  struct Entry {
    Entry(const engine::Tenant& of, BlockingCalls& calls, AdminSocket::Limits limits)
        : tenant(&of), socket(methods, calls, of.name, limits) {}
    const engine::Tenant* tenant;
    AdminMethods methods;
    AdminSocket socket;
    Watch watch;
  };

  void serve(Entry& entry);

  Adapter& adapter_;
  TenantLoops& loops_;
  std::vector<AddMethods> add_;
  std::list<Entry> entries_;
};

}  // namespace softhca::control
