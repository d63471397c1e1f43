// Sockets of levels: whoever comes by one belongs to that level.
#include "daemon/control/server.hpp"

namespace softhca::control {

/// That of a tenant that was closed, or a new one.
Server::Listener& Server::level_listener(const engine::Level& level) {
  for (Listener& listener : listeners_)
    if (listener.level == &level) return listener;
  return listeners_.emplace_back();
}

Outcome Server::open_level_sockets(engine::Tenant& tenant) {
  const resource::TenantConfig& config = adapter_.settings(tenant);
  for (std::size_t i = 0; i < tenant.levels.size(); ++i) {
    if (!config.levels[i].socket) continue;
    const resource::SocketConfig& socket = *config.levels[i].socket;
    const std::string path = adapter_.config.daemon.runtime_dir + "/" + tenant.name + "/" +
                             tenant.levels[i]->name + ".socket";
    auto listening = listen_at(path, {socket.owner, socket.group, socket.mode});
    if (!listening) return listening.error();
    Listener& listener = level_listener(*tenant.levels[i]);
    listener.path = path;
    listener.tenant = &tenant;
    listener.level = tenant.levels[i].get();
    listener.socket = std::move(*listening);
    listener.armed = true;
    listener.watch.listener = &listener;
    listener.link_up = adapter_.link_up(tenant);
    if (auto watched = watch(listener.socket.get(), &listener.watch); !watched) return watched;
  }
  return {};
}

}  // namespace softhca::control
