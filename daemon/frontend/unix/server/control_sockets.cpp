// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/control_sockets.hpp"

#include <algorithm>

namespace softhca::control {
namespace {

// A request costs at most a step of the engine's tables, some tens of microseconds. A tenant that
// sends more requests is answered later.
constexpr AdminSocket::Limits kLimits{
    .line = std::size_t{16} << 10,
    .clients = 4,
    .lines_per_tick = 20,
    .rpc = {.depth = 8, .batch = 1, .reply = std::size_t{1} << 20}};

std::string path_of(const configuration::Config& config, const engine::Tenant& tenant) {
  return folder_of(config, tenant) + "/control.sock";
}

}  // namespace

Outcome ControlSockets::open(const engine::Tenant& tenant,
                             const configuration::SocketConfig& socket) {
  Entry& entry = entries_.emplace_back(tenant, adapter_.blocking_calls, kLimits);
  for (const AddMethods& add : add_) add(entry.methods, tenant);
  entry.watch.ready = [this, &entry] { serve(entry); };
  Outcome opened =
      entry.socket.open(adapter_.kept, path_of(adapter_.config, tenant), permissions_of(socket));
  if (opened) opened = loops_.watch(tenant, entry.socket.fd(), entry.watch);
  if (!opened) entries_.pop_back();
  return opened;
}

void ControlSockets::close(const engine::Tenant& tenant) {
  entries_.remove_if([&](const Entry& entry) { return entry.tenant == &tenant; });
}

bool ControlSockets::contains(const engine::Tenant& tenant) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.tenant == &tenant; });
}

Outcome ControlSockets::permit(const engine::Tenant& tenant,
                               const configuration::SocketConfig& socket) {
  return set_permissions(path_of(adapter_.config, tenant), given_permissions(socket));
}

void ControlSockets::serve(Entry& entry) {
  entry.socket.serve();
  if (entry.socket.is_paused())
    loops_.arm(*entry.tenant, entry.socket.fd(), entry.watch, Interest::kNothing);
}

void ControlSockets::tick() {
  for (Entry& entry : entries_) {
    const bool paused = entry.socket.is_paused();
    entry.socket.tick();
    if (paused) loops_.arm(*entry.tenant, entry.socket.fd(), entry.watch, Interest::kReadable);
  }
}

}  // namespace softhca::control
