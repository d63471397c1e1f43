// Turns at the control thread: one loop for each tenant, which the thread's own loop watches as one
// descriptor. epoll gives each descriptor that is ready its turn before any has a second, so that a
// tenant waits for one event of each of the others, however many connections these have.
#pragma once

#include <memory>
#include <vector>

#include "daemon/control/server/event_loop.hpp"
#include "daemon/engine/tenant.hpp"

namespace softhca::control {

class TenantLoops {
 public:
  explicit TenantLoops(EventLoop& all) : all_(all) {}

  /// As the functions of EventLoop, for a descriptor of the tenant: a socket that its programs
  /// reach, or one of their processes.
  Outcome watch(const engine::Tenant& tenant, int fd, Watch& what);
  void unwatch(const engine::Tenant& tenant, int fd);
  bool arm(const engine::Tenant& tenant, int fd, Watch& what, Interest interest);

 private:
  struct Turns {
    EventLoop loop;
    Watch watch;
  };

  Turns* find(const engine::Tenant& tenant) const;
  Outcome open(const engine::Tenant& tenant);

  EventLoop& all_;
  std::vector<std::unique_ptr<Turns>> turns_;  ///< by tenant; null: never asked for
};

}  // namespace softhca::control
