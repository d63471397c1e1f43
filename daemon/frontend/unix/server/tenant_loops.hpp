// SPDX-License-Identifier: Apache-2.0

// Turns at the control thread. Each tenant has a loop, which the thread's own loop watches as one
// descriptor. epoll serves each ready descriptor once before it serves any a second time. So a
// tenant waits for one event of each other tenant, however many connections these have.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/engine/records/tenant.hpp"
#include "daemon/frontend/unix/server/event_loop.hpp"

namespace softhca::control {

class TenantLoops {
 public:
  explicit TenantLoops(EventLoop& all) : all_(all) {}

  /// As the functions of EventLoop, for a descriptor of the tenant: a socket of its programs, or
  /// one of their processes.
  Outcome watch(const engine::Tenant& tenant, int fd, Watch& what);
  void unwatch(const engine::Tenant& tenant, int fd);
  bool arm(const engine::Tenant& tenant, int fd, Watch& what, Interest interest);
  /// Calls `work` in turns of the tenant, beside its descriptors, until it returns false.
  void add_work(const engine::Tenant& tenant, std::function<bool()> work);

 private:
  struct Turns {
    EventLoop loop;
    Watch watch;
    std::deque<std::function<bool()>> work;
    UniqueFd work_fd;  ///< always readable; open while there is work
    Watch work_watch;
  };

  Turns* find(const engine::Tenant& tenant) const;
  Outcome open(const engine::Tenant& tenant);
  static bool begin_work(Turns& turns);
  static void do_work(Turns& turns);

  EventLoop& all_;
  std::vector<std::unique_ptr<Turns>> turns_;  ///< by tenant; null: not used yet
};

}  // namespace softhca::control
