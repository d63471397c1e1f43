// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/tenant_loops.hpp"

#include <sys/eventfd.h>

#include <utility>

namespace softhca::control {

TenantLoops::Turns* TenantLoops::find(const engine::Tenant& tenant) const {
  return tenant.id.value < turns_.size() ? turns_[tenant.id.value].get() : nullptr;
}

Outcome TenantLoops::open(const engine::Tenant& tenant) {
  auto turns = std::make_unique<Turns>();
  if (auto opened = turns->loop.open(); !opened) return opened;
  turns->watch.ready = [&loop = turns->loop] { (void)loop.step(0); };
  if (auto watched = all_.watch(turns->loop.fd(), turns->watch); !watched) return watched;
  if (turns_.size() <= tenant.id.value) turns_.resize(tenant.id.value + 1u);
  turns_[tenant.id.value] = std::move(turns);
  return {};
}

Outcome TenantLoops::watch(const engine::Tenant& tenant, int fd, Watch& what) {
  if (find(tenant) == nullptr)
    if (auto opened = open(tenant); !opened) return opened;
  return find(tenant)->loop.watch(fd, what);
}

void TenantLoops::unwatch(const engine::Tenant& tenant, int fd) {
  if (Turns* turns = find(tenant)) turns->loop.unwatch(fd);
}

bool TenantLoops::arm(const engine::Tenant& tenant, int fd, Watch& what, Interest interest) {
  Turns* turns = find(tenant);
  return turns != nullptr && turns->loop.arm(fd, what, interest);
}

/// Returns false if the daemon has run out of descriptors.
bool TenantLoops::begin_work(Turns& turns) {
  if (turns.work_fd) return true;
  UniqueFd fd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  turns.work_watch.ready = [&turns] { do_work(turns); };
  if (fd && turns.loop.watch(fd.get(), turns.work_watch)) turns.work_fd = std::move(fd);
  return static_cast<bool>(turns.work_fd);
}

void TenantLoops::add_work(const engine::Tenant& tenant, std::function<bool()> work) {
  Turns* const turns = find(tenant);
  if (turns != nullptr && begin_work(*turns)) return turns->work.push_back(std::move(work));
  // The daemon has run out of descriptors. The work may free some.
  while (work()) {
  }
}

/// Gives one turn to the work that has waited longest.
void TenantLoops::do_work(Turns& turns) {
  std::function<bool()> work = std::move(turns.work.front());
  turns.work.pop_front();
  if (work()) turns.work.push_back(std::move(work));
  if (!turns.work.empty()) return;
  turns.loop.unwatch(turns.work_fd.get());
  turns.work_fd.reset();
}

}  // namespace softhca::control
