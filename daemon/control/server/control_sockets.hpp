// Sockets by which tenants ask for what is their own (mechanism A7): the protocol of the admin
// socket with few methods and narrow bounds, since a tenant may ask as often as it likes.
#pragma once

#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "daemon/control/admin/admin_socket.hpp"
#include "daemon/control/server/listeners.hpp"
#include "daemon/control/server/tenant_loops.hpp"

namespace softhca::control {

class ControlSockets {
 public:
  /// Adds what a tenant may ask for.
  using AddMethods = std::function<void(AdminMethods&, const engine::Tenant&)>;

  ControlSockets(Adapter& adapter, TenantLoops& loops) : adapter_(adapter), loops_(loops) {}

  /// To be called before the first socket is opened.
  void on_open(AddMethods add) { add_.push_back(std::move(add)); }

  Outcome open(const engine::Tenant& tenant, const resource::SocketConfig& socket);
  /// Nothing happens if there is none.
  void close(const engine::Tenant& tenant);
  void clear() { entries_.clear(); }
  bool contains(const engine::Tenant& tenant) const;
  Outcome permit(const engine::Tenant& tenant, const resource::SocketConfig& socket);

  /// About once a second.
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
