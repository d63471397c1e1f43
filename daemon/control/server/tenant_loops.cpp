#include "daemon/control/server/tenant_loops.hpp"

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

}  // namespace softhca::control
